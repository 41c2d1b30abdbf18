// Muon (Jordan et al. 2024): momentum whose matrix is made orthogonal before it is applied.
//
// [Note: Newton-Schulz] Of the momentum's singular value decomposition U S V^T, Muon applies U V^T. Five
// rounds of X <- a X + b (X X^T) X + c (X X^T)^2 X with (a, b, c) = (3.4445, -4.7750, 2.0315), from X over
// its norm, take each singular value to between 0.7 and 1.2, which does as well. With G = X X^T, or X^T X of
// a tall matrix, a round is three products: G, P = G (c G + b I) + a I, and P X or X P. PyTorch computes them
// in bf16; here they are fp32, as every update is, in every precision of a job.
//
// What is no matrix of a hidden layer is updated by another rule: AdamW's, with its betas and epsilon.
#pragma once

#include <memory>

#include "runtime/optim/optimizer.h"

namespace trireme {

inline constexpr int kNewtonSchulzRounds = 5;

/// What torch.optim.Muon does to matrices, from config.momentum, nesterov, weight_decay and muon_scale;
/// `rest` does the other segments. A matrix takes memory while it is updated, MemoryCategory::kOptimizer: of
/// [r, c] padded to whole norm blocks, and of [r, c] again, and of three squares of the shorter side.
std::unique_ptr<Optimizer> make_muon(const OptimizerConfig& config, std::unique_ptr<Optimizer> rest);

}  // namespace trireme

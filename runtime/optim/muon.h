// Muon (Jordan et al. 2024): momentum SGD that orthogonalizes the momentum matrix before applying it.
//
// [Note: Newton-Schulz] With the singular value decomposition U S V^T of the momentum, Muon applies U V^T.
// Five rounds of X <- a X + b (X X^T) X + c (X X^T)^2 X with (a, b, c) = (3.4445, -4.7750, 2.0315), starting
// from X over its norm, bring each singular value to between 0.7 and 1.2, which works as well. With G = X
// X^T, or X^T X for a tall matrix, a round is three products: G, P = G (c G + b I) + a I, and P X or X P.
// PyTorch computes them in bf16. Here they are fp32 in every precision mode, as every update is.
//
// AdamW, with its betas and epsilon, updates all parameters that are not matrices of hidden layers.
#pragma once

#include <memory>

#include "runtime/optim/optimizer.h"

namespace trireme {

inline constexpr int kNewtonSchulzRounds = 5;

/// Updates matrices as torch.optim.Muon does, from config.momentum, nesterov, weight_decay and muon_scale;
/// `rest` updates the other segments. The update of a matrix [r, c] takes temporary memory
/// (MemoryCategory::kOptimizer): [r, c] padded to whole norm blocks, [r, c] again, and three squares of the
/// shorter side.
std::unique_ptr<Optimizer> make_muon(const OptimizerConfig& config, std::unique_ptr<Optimizer> rest);

}  // namespace trireme

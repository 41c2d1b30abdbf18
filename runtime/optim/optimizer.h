// Optimizers over flat fp32 segments: one pass that clips, decays, updates and writes the working copy.
//
// An optimizer is a rule without memory: its per-parameter state lives with the parameters (in ParamGroup),
// so that it can be sharded and saved like them. Adding one: a config, a class here, an entry in the operator
// table.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/context.h"

namespace trireme {

/// The factor of the learning rate of a matrix that Muon made orthogonal, as torch.optim.Muon's adjust_lr_fn
/// has it.
enum class MuonScale : std::uint8_t {
  kOriginal,       // sqrt(max(1, rows / cols)) (Jordan et al. 2024)
  kMatchRmsAdamW,  // 0.2 sqrt(max(rows, cols)): updates as large as AdamW's (Liu et al. 2025)
};

struct OptimizerConfig {
  enum class Kind : std::uint8_t { kAdamW, kSgd, kLion, kMuon };
  Kind kind = Kind::kAdamW;
  float weight_decay = 0.0f;
  // AdamW, and Lion without the epsilon, whose paper has betas of 0.9 and 0.99
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  // SGD, and Muon, which has 0.95 and true in PyTorch
  float momentum = 0.0f;
  bool nesterov = false;
  // Muon
  MuonScale muon_scale = MuonScale::kOriginal;
};

/// Scalars of one update, on the device: [] tensors.
struct UpdateScalars {
  Tensor lr;    // fp32
  Tensor clip;  // fp32: factor on every gradient
  Tensor step;  // int32: 1 for the first update
  Tensor skip;  // int32, or undefined: nothing is updated when it is not 0
};

/// A flat run of elements with one factor of weight decay and one center; all views of equal length.
struct UpdateSegment {
  TensorView param, working;  // working undefined when the master is the working copy
  ConstTensorView grad;
  std::vector<TensorView> state;  // in the order of state_names()
  float decay = 1.0f;             // factor of OptimizerConfig::weight_decay
  float working_center = 0.0f;    // see [Note: centered working copies]
  std::optional<Shape>
      matrix;  // of one that is updated as a matrix: its shape, without the padding behind it
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Names of the fp32 tensors kept for every parameter, zero at the start: "exp_avg", ...
  virtual std::vector<std::string> state_names() const = 0;
  /// The same of a matrix; see UpdateSegment::matrix.
  virtual std::vector<std::string> matrix_state_names() const { return state_names(); }
  /// True if matrices are updated as such, and so have to be whole.
  virtual bool updates_matrices() const { return false; }
  virtual void update(const Context& ctx, const UpdateSegment& segment,
                      const UpdateScalars& scalars) const = 0;
};

/// Throws when the numbers make no sense (negative decay, beta outside [0, 1), nesterov without momentum).
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config);

}  // namespace trireme

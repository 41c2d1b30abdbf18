// Optimizers over flat fp32 segments: one pass that clips, decays, updates and writes the working copy.
//
// An optimizer is a rule without memory. Its per-parameter state is stored with the parameters (in
// ParamGroup), so that it is sharded and saved like them. To add one: a config, a class here, an entry in the
// operator table.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/context.h"

namespace trireme {

/// The learning-rate factor of an orthogonalized matrix, as adjust_lr_fn of torch.optim.Muon.
enum class MuonScale : std::uint8_t {
  kOriginal,       // sqrt(max(1, rows / cols)) (Jordan et al. 2024)
  kMatchRmsAdamW,  // 0.2 sqrt(max(rows, cols)): matches the RMS of AdamW's updates (Liu et al. 2025)
};

struct OptimizerConfig {
  enum class Kind : std::uint8_t { kAdamW, kSgd, kLion, kMuon };
  Kind kind = Kind::kAdamW;
  float weight_decay = 0.0f;
  // AdamW. Lion uses the betas only; its paper has betas of 0.9 and 0.99.
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  // SGD and Muon. PyTorch's Muon has momentum 0.95 and nesterov true.
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
  Tensor skip;  // int32, or undefined: nothing is updated if it is not 0
};

/// A flat run of elements with one weight decay factor and one center; all views have equal length.
struct UpdateSegment {
  TensorView param, working;  // working undefined when the master is the working copy
  ConstTensorView grad;
  std::vector<TensorView> state;  // in the order of state_names()
  float decay = 1.0f;             // factor of OptimizerConfig::weight_decay
  float working_center = 0.0f;    // see [Note: centered working copies]
  std::optional<Shape> matrix;    // shape of a segment updated as a matrix, without the padding behind it
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Names of the fp32 tensors kept for every parameter, zero at the start: "exp_avg", ...
  virtual std::vector<std::string> state_names() const = 0;
  /// State names of matrices; see UpdateSegment::matrix.
  virtual std::vector<std::string> matrix_state_names() const { return state_names(); }
  /// True if matrices are updated as matrices, and so must not be sharded.
  virtual bool updates_matrices() const { return false; }
  virtual void update(const Context& ctx, const UpdateSegment& segment,
                      const UpdateScalars& scalars) const = 0;
};

/// Throws for invalid numbers (negative decay, beta outside [0, 1), nesterov without momentum).
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config);

}  // namespace trireme

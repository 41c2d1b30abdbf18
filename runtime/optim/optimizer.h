// Optimizers over flat fp32 segments: one pass that clips, decays, updates and writes the working copy.
//
// An optimizer is a rule without memory: its per-parameter state lives with the parameters (in ParamGroup),
// so that it can be sharded and saved like them. Adding one: a config, a class here, an entry in the operator
// table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/context.h"

namespace trireme {

struct OptimizerConfig {
  enum class Kind : std::uint8_t { kAdamW, kSgd };
  Kind kind = Kind::kAdamW;
  float weight_decay = 0.0f;
  // AdamW
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  // SGD
  float momentum = 0.0f;
  bool nesterov = false;
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
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Names of the fp32 tensors kept for every parameter, zero at the start: "exp_avg", ...
  virtual std::vector<std::string> state_names() const = 0;
  virtual void update(const Context& ctx, const UpdateSegment& segment,
                      const UpdateScalars& scalars) const = 0;
};

/// Throws when the numbers make no sense (negative decay, beta outside [0, 1), nesterov without momentum).
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config);

}  // namespace trireme

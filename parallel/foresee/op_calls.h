// The calls of kernels and libraries that a training step makes, recorded on the meta device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/foresee/op_time.h"
#include "parallel/foresee/predict.h"
#include "parallel/foresee/random_operands.h"

namespace trireme {

/// A call with its own memory on a device, which can be repeated.
using BoundCall = std::function<void()>;

struct OpCall {
  std::string_view op;   // Args::kName, "copy" or "fill_zero"
  std::string operands;  // dtype and shape of the first; shapes of the others, except results and vectors
  OpCost cost;
  OpShape shape;
  std::string problem;  // equal for calls that pose the same problem to a library: all operands, their
                        // alignment, options
  int unit = -1;        // -1: the whole model
  TimeSpent spent = TimeSpent::kForward;  // kExchange: the sums of gradients and the end of the step
  /// Returns the same call on `ctx`, which outlives it, with newly allocated random operands. Ids of a
  /// table's rows are random ones of the table. Tensors that shared memory share it again, with their
  /// original alignment up to Allocator::kAlignment.
  using Bind = std::function<BoundCall(const Context& ctx, const RandomOperands& operands)>;
  Bind bind;
  /// A product with an epilogue, as a plain product followed by a pass over its result each for bias,
  /// activation and residual. Empty for other calls.
  Bind bind_unfused;
};

struct StepCalls {
  std::vector<OpCall> calls;            // in order
  std::vector<std::string> unit_names;  // the blocks
};

/// Records a step of one of the job's ranks. Copies between host and device are left out, because they
/// overlap.
StepCalls record_step(const PlannedJob& job, int rank = 0);

}  // namespace trireme

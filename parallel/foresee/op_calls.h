// The calls of kernels and libraries that a training step makes, recorded on the meta device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/foresee/op_time.h"
#include "parallel/foresee/predict.h"

namespace trireme {

/// A call with memory of its own on a device, to be made as often as one wants.
using BoundCall = std::function<void()>;

struct OpCall {
  std::string_view op;   // Args::kName, "copy" or "fill_zero"
  std::string operands;  // dtype and shape of the first; shapes of the others but results and vectors
  OpCost cost;
  OpShape shape;
  std::string problem;  // equal for calls that ask a library the same: all operands, their alignment, options
  int unit = -1;        // -1: the whole model
  TimeSpent spent = TimeSpent::kForward;  // kExchange: the sums of gradients and the end of the step
  /// The same call on `ctx`, which outlives it, on memory that is allocated there and holds no values yet.
  /// Tensors that shared memory share it; they are aligned as they were, up to Allocator::kAlignment.
  std::function<BoundCall(const Context& ctx, const std::function<void(TensorView)>& fill)> bind;
};

struct StepCalls {
  std::vector<OpCall> calls;            // in order
  std::vector<std::string> unit_names;  // the blocks
};

/// A step of one of the job's ranks. Copies between host and device are not among the calls: they overlap.
StepCalls record_step(const PlannedJob& job, int rank = 0);

}  // namespace trireme

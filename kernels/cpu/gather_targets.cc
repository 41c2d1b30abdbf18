#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

struct TargetExtents {
  std::int64_t tokens, per_sample;  // T, K
  std::size_t row_bytes;

  /// The row of x that row `row` of y comes from, or -1.
  std::int64_t token_of(const std::int32_t* positions, std::int64_t row) const {
    return positions[row] < 0 ? -1 : row / per_sample * tokens + positions[row];
  }
};

void check_positions(const char* op, ConstTensorView positions, std::int64_t tokens) {
  check_indices({.op = op, .what = "target position", .lowest = -1, .count = tokens}, positions);
}

}  // namespace

void run_op(const KernelContext& exec, const GatherTargetsArgs& args) {
  check_one_float_type("gather_targets", {args.x, args.y});
  const std::int64_t rows = args.positions.num_elems(), cols = args.x.shape[2];
  assert(args.y.num_elems() == rows * cols && args.y_targets.num_elems() == rows);
  check_positions("gather_targets", args.positions, args.x.shape[1]);
  const TargetExtents e{args.x.shape[1], args.positions.shape[1],
                        static_cast<std::size_t>(cols * size_bytes(args.x.dtype))};
  const auto* positions = args.positions.as<std::int32_t>();
  const auto* targets = args.targets.as<std::int32_t>();
  const auto* x = args.x.as<std::byte>();
  for_each_piece(exec, rows, rows * cols, [&](std::int64_t row) {
    const std::int64_t token = e.token_of(positions, row);
    std::byte* y = args.y.as<std::byte>() + static_cast<std::size_t>(row) * e.row_bytes;
    args.y_targets.as<std::int32_t>()[row] = token < 0 ? -1 : targets[token];
    if (token < 0) {
      std::memset(y, 0, e.row_bytes);
    } else {
      std::memcpy(y, x + static_cast<std::size_t>(token) * e.row_bytes, e.row_bytes);
    }
  });
}

void run_op(const KernelContext& exec, const ScatterTargetsArgs& args) {
  check_one_float_type("scatter_targets", {args.dy, args.dx});
  const std::int64_t cols = args.dx.shape[2];
  assert(args.dy.num_elems() == args.positions.num_elems() * cols);
  check_positions("scatter_targets", args.positions, args.dx.shape[1]);
  const TargetExtents e{args.dx.shape[1], args.positions.shape[1],
                        static_cast<std::size_t>(cols * size_bytes(args.dx.dtype))};
  const auto* positions = args.positions.as<std::int32_t>();
  const std::size_t sample_bytes = static_cast<std::size_t>(e.tokens) * e.row_bytes;
  for_each_piece(exec, args.dx.shape[0], args.dx.num_elems(), [&](std::int64_t sample) {
    std::memset(args.dx.as<std::byte>() + static_cast<std::size_t>(sample) * sample_bytes, 0, sample_bytes);
    for (std::int64_t row = sample * e.per_sample; row < (sample + 1) * e.per_sample; ++row) {
      const std::int64_t token = e.token_of(positions, row);
      if (token < 0) continue;
      std::memcpy(args.dx.as<std::byte>() + static_cast<std::size_t>(token) * e.row_bytes,
                  args.dy.as<std::byte>() + static_cast<std::size_t>(row) * e.row_bytes, e.row_bytes);
    }
  });
}

}  // namespace trireme::cpu

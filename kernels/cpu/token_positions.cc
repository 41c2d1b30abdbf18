#include <algorithm>
#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

/// Runs body(first, count) for pieces of a row of `cols` elements.
template <class Body>
void for_each_part_of_row(std::int64_t cols, const Body& body) {
  for (std::int64_t first = 0; first < cols; first += kBuffer) body(first, std::min(kBuffer, cols - first));
}

// sum (+)= token t of every sample, in order.
void sum_over_samples(ConstTensorView dy, std::int64_t t, float* sum, GradientMode mode) {
  const std::int64_t samples = dy.shape[0], tokens = dy.shape[1], cols = dy.shape[2];
  if (mode == GradientMode::kOverwrite) std::fill_n(sum, cols, 0.0f);
  for (std::int64_t b = 0; b < samples; ++b) {
    for_each_part_of_row(cols, [&](std::int64_t first, std::int64_t count) {
      add_to(sum + first, dy, (b * tokens + t) * cols + first, count);
    });
  }
}

}  // namespace

void run_op(const KernelContext& exec, const TokenPositionsFwdArgs& args) {
  check_one_float_type("token_positions_fwd", {args.x, args.first, args.positions, args.y});
  const std::int64_t tokens = args.y.shape[1], cols = args.y.shape[2];
  const std::int64_t before = args.first.defined() ? 1 : 0;
  assert(args.x.shape[1] + before == tokens && args.positions.num_elems() == tokens * cols);
  const std::int64_t rows = args.y.num_elems() / std::max<std::int64_t>(1, cols);
  for_each_piece(exec, rows, rows * cols, [&](std::int64_t row) {
    const std::int64_t sample = row / tokens, t = row % tokens;
    const bool is_first = t < before;
    const std::int64_t from = is_first ? 0 : (sample * (tokens - before) + t - before) * cols;
    for_each_part_of_row(cols, [&](std::int64_t first, std::int64_t count) {
      float x[kBuffer], position[kBuffer];
      const float* token = read(is_first ? args.first : args.x, from + first, count, x);
      float* y = place(args.y, row * cols + first, x);
      numerics().elementwise->add(token, read(args.positions, t * cols + first, count, position), y, count);
      write(args.y, row * cols + first, count, y);
    });
  });
}

void run_op(const KernelContext& exec, const TokenPositionsBwdArgs& args) {
  check_one_float_type("token_positions_bwd", {args.dy, args.dx});
  check_fp32("token_positions_bwd", {args.dfirst, args.dpositions});
  const std::int64_t samples = args.dy.shape[0], tokens = args.dy.shape[1], cols = args.dy.shape[2];
  if (args.dx.defined()) {
    assert(args.dx.shape[1] == tokens - 1);
    for_each_piece(exec, samples * (tokens - 1), args.dx.num_elems(), [&](std::int64_t row) {
      const std::int64_t from = (row / (tokens - 1) * tokens + row % (tokens - 1) + 1) * cols;
      for_each_part_of_row(cols, [&](std::int64_t first, std::int64_t count) {
        float buffer[kBuffer];
        write(args.dx, row * cols + first, count, read(args.dy, from + first, count, buffer));
      });
    });
  }
  if (args.dfirst_mode != GradientMode::kIgnore) {
    sum_over_samples(args.dy, 0, args.dfirst.as<float>(), args.dfirst_mode);
  }
  if (args.dpositions_mode == GradientMode::kIgnore) return;
  for_each_piece(exec, tokens, args.dy.num_elems(), [&](std::int64_t t) {
    sum_over_samples(args.dy, t, args.dpositions.as<float>() + t * cols, args.dpositions_mode);
  });
}

}  // namespace trireme::cpu

#include <algorithm>
#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

constexpr std::int64_t kStrip = 128;           // channels that one piece sums
constexpr std::int64_t kPositionsPerSum = 64;  // summed before they are added to the total: smaller errors

}  // namespace

void run_op(const KernelContext& exec, const ShiftChannelsArgs& args) {
  check_one_float_type("shift_channels", {args.x, args.shift, args.y});
  const std::int64_t positions = args.y.shape[1], channels = args.y.shape[2];
  assert(args.x.shape == args.y.shape && args.shift.num_elems() == args.y.shape[0] * channels);
  const std::int64_t rows = args.y.shape[0] * positions;
  for_each_piece(exec, rows, rows * channels, [&](std::int64_t row) {
    const std::int64_t shift = row / positions * channels;
    for (std::int64_t c = 0; c < channels; c += kBuffer) {
      const std::int64_t count = std::min(kBuffer, channels - c);
      float x_buffer[kBuffer], shift_buffer[kBuffer];
      const float* x = read(args.x, row * channels + c, count, x_buffer);
      float* y = place(args.y, row * channels + c, x_buffer);
      numerics().elementwise->add(x, read(args.shift, shift + c, count, shift_buffer), y, count);
      write(args.y, row * channels + c, count, y);
    }
  });
}

void run_op(const KernelContext& exec, const SumPositionsArgs& args) {
  check_one_float_type("sum_positions", {args.x, args.sum});
  const std::int64_t positions = args.x.shape[1], channels = args.x.shape[2];
  assert(args.sum.num_elems() == args.x.shape[0] * channels);
  const std::int64_t strips = ceil_div(channels, kStrip);
  for_each_piece(exec, args.x.shape[0] * strips, args.x.num_elems(), [&](std::int64_t piece) {
    const std::int64_t sample = piece / strips, c = piece % strips * kStrip;
    const std::int64_t count = std::min(kStrip, channels - c);
    float total[kStrip] = {};
    for (std::int64_t first = 0; first < positions; first += kPositionsPerSum) {
      float part[kStrip] = {};
      for (std::int64_t p = first; p < std::min(positions, first + kPositionsPerSum); ++p) {
        add_to(part, args.x, (sample * positions + p) * channels + c, count);
      }
      numerics().elementwise->add(total, part, total, count);
    }
    write(args.sum, sample * channels + c, count, total);
  });
}

}  // namespace trireme::cpu

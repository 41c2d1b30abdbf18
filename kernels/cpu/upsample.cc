#include <cassert>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

// One piece is a row of x, two rows of y.
void run_op(const KernelContext& exec, const UpsampleFwdArgs& args) {
  check_one_float_type("upsample_fwd", {args.x, args.y});
  const std::int64_t rows = args.x.shape[0] * args.x.shape[1], width = args.x.shape[2];
  const std::int64_t pixel = args.x.shape[3] * size_bytes(args.x.dtype), line = 2 * width * pixel;
  assert(args.y.num_elems() == 4 * args.x.num_elems());
  for_each_piece(exec, rows, args.y.num_elems(), [&](std::int64_t row) {
    const char* from = args.x.as<char>() + row * width * pixel;
    char* to = args.y.as<char>() + row * 2 * line;
    for (std::int64_t j = 0; j < 2 * width; ++j) {
      std::memcpy(to + j * pixel, from + j / 2 * pixel, static_cast<std::size_t>(pixel));
    }
    std::memcpy(to + line, to, static_cast<std::size_t>(line));
  });
}

void run_op(const KernelContext& exec, const UpsampleBwdArgs& args) {
  check_one_float_type("upsample_bwd", {args.dy, args.dx});
  const std::int64_t rows = args.dx.shape[0] * args.dx.shape[1], width = args.dx.shape[2];
  const std::int64_t cols = args.dx.shape[3], line = 2 * width * cols;
  assert(args.dy.num_elems() == 4 * args.dx.num_elems());
  const auto& add = *numerics().elementwise->add;
  for_each_piece(exec, rows, args.dy.num_elems(), [&](std::int64_t row) {
    for (std::int64_t j = 0; j < width; ++j) {
      for (std::int64_t c = 0; c < cols; c += kBuffer) {
        const std::int64_t count = std::min(kBuffer, cols - c), upper = 2 * (row * line + j * cols) + c;
        float a[kBuffer], b[kBuffer], below[kBuffer];
        const auto pair = [&](std::int64_t at, float* sum) {
          add(read(args.dy, at, count, a), read(args.dy, at + cols, count, b), sum, count);
        };
        pair(upper + line, below);
        float* const dx = place(args.dx, (row * width + j) * cols + c, a);
        pair(upper, dx);
        add(dx, below, dx, count);
        write(args.dx, (row * width + j) * cols + c, count, dx);
      }
    }
  });
}

}  // namespace trireme::cpu

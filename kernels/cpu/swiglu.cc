#include <cassert>
#include <utility>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

/// Runs body(first element of y, row, first column, count) for pieces of rows of `cols` elements.
template <class Body>
void for_each_part(const KernelContext& exec, std::int64_t rows, std::int64_t cols, const Body& body) {
  for_each_piece(exec, rows, 2 * rows * cols, [&](std::int64_t row) {
    for (std::int64_t first = 0; first < cols; first += kBuffer) {
      body(row, first, std::min(kBuffer, cols - first));
    }
  });
}

/// Runs the op into scratch memory, then makes codes of its result. `result` is a member of Args.
template <class Args>
void run_to_codes(const KernelContext& exec, Args args, TensorView Args::*result, const Shape& shape) {
  const CodesOutput out = std::exchange(args.out, {});
  const Workspace numbers(exec, ceil_div(shape.num_elems() * size_bytes(args.x.dtype), 4));
  args.*result = {numbers.data(), args.x.dtype, shape};
  run_op(exec, args);
  run_op(exec, QuantizeArgs{.x = args.*result, .out = out});
}

}  // namespace

void run_op(const KernelContext& exec, const SwigluFwdArgs& args) {
  if (args.out.defined()) {
    const Shape shape{args.x.shape[0], args.x.shape[1] / 2};
    return run_to_codes(exec, args, &SwigluFwdArgs::y, shape);
  }
  check_one_float_type("swiglu_fwd", {args.x, args.y});
  const std::int64_t rows = args.y.shape[0], cols = args.y.shape[1];
  assert(args.x.shape[0] == rows && args.x.shape[1] == 2 * cols);
  for_each_part(exec, rows, cols, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
    float gate[kBuffer], up[kBuffer];
    const std::int64_t at = 2 * row * cols + first, to = row * cols + first;
    const float* g = read(args.x, at, count, gate);
    float* y = place(args.y, to, gate);
    numerics().activation->swiglu(g, read(args.x, at + cols, count, up), y, count);
    write(args.y, to, count, y);
  });
}

void run_op(const KernelContext& exec, const SwigluBwdArgs& args) {
  if (args.out.defined()) return run_to_codes(exec, args, &SwigluBwdArgs::dx, args.x.shape);
  check_one_float_type("swiglu_bwd", {args.dy, args.x, args.dx});
  const std::int64_t rows = args.dy.shape[0], cols = args.dy.shape[1];
  assert(args.x.shape[1] == 2 * cols && args.dx.num_elems() == args.x.num_elems());
  for_each_part(exec, rows, cols, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
    float dy[kBuffer], gate[kBuffer], up[kBuffer];
    const std::int64_t at = 2 * row * cols + first;
    const float* g = read(args.x, at, count, gate);
    const float* u = read(args.x, at + cols, count, up);
    float *dgate = place(args.dx, at, gate), *dup = place(args.dx, at + cols, up);
    numerics().activation->swiglu_bwd(read(args.dy, row * cols + first, count, dy), g, u, dgate, dup, count);
    write(args.dx, at, count, dgate);
    write(args.dx, at + cols, count, dup);
  });
}

}  // namespace trireme::cpu

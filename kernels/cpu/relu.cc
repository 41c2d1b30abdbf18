
#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void run_op(const KernelContext& exec, const ReluArgs& args) {
  check_one_float_type("relu", {args.x, args.y});
  for_each_range(exec, args.y.num_elems(), kBuffer, [&](std::int64_t first, std::int64_t count) {
    float buffer[kBuffer];
    const float* x = read(args.x, first, count, buffer);
    float* y = place(args.y, first, buffer);
    numerics().batch_norm->relu(x, y, count);
    write(args.y, first, count, y);
  });
}

void run_op(const KernelContext& exec, const ReluBwdArgs& args) {
  check_one_float_type("relu_bwd", {args.dy, args.y, args.dx});
  for_each_range(exec, args.dx.num_elems(), kBuffer, [&](std::int64_t first, std::int64_t count) {
    float dy_buffer[kBuffer], y_buffer[kBuffer];
    const float* dy = read(args.dy, first, count, dy_buffer);
    float* dx = place(args.dx, first, dy_buffer);
    numerics().batch_norm->relu_bwd(dy, read(args.y, first, count, y_buffer), dx, count);
    write(args.dx, first, count, dx);
  });
}

}  // namespace trireme::cpu

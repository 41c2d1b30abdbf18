// The convolutions of the table: as matrix products where possible, else in pieces of images on oneDNN.
#include "kernels/cpu/conv/conv_primitives.h"
#include "kernels/cpu/conv/winograd_conv.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void run_op(const KernelContext& exec, const Conv2dFwdArgs& args) {
  check_one_float_type("conv2d_fwd", {args.x, args.weight, args.bias, args.y});
  if (args.y.num_elems() == 0) return;
  if (is_pointwise(args.weight.shape, args.geometry)) return pointwise_conv_fwd(exec, args);
  const ConvShape shape =
      conv_extents<std::int64_t>(args.x.shape, args.weight.shape, args.y.shape, args.geometry);
  if (takes_winograd(ConvKind::kFwd, shape, args.x.dtype, args.math)) {
    return winograd_conv_fwd(exec, shape, args);
  }
  conv_fwd_by_pieces(exec, shape, args);
}

void run_op(const KernelContext& exec, const Conv2dBwdDataArgs& args) {
  check_one_float_type("conv2d_bwd_data", {args.dy, args.weight, args.dx_add, args.dx});
  if (args.dx.num_elems() == 0) return;
  if (is_pointwise(args.weight.shape, args.geometry)) return pointwise_conv_bwd_data(exec, args);
  const ConvShape shape =
      conv_extents<std::int64_t>(args.dx.shape, args.weight.shape, args.dy.shape, args.geometry);
  if (takes_winograd(ConvKind::kBwdData, shape, args.dy.dtype, args.math)) {
    return winograd_conv_bwd_data(exec, shape, args);
  }
  conv_bwd_data_by_pieces(exec, shape, args);
}

void run_op(const KernelContext& exec, const Conv2dBwdWeightArgs& args) {
  check_one_float_type("conv2d_bwd_weight", {args.dy, args.x});
  check_fp32("conv2d_bwd_weight", {args.dweight});
  if (args.mode == GradientMode::kIgnore) return;
  if (is_pointwise(args.dweight.shape, args.geometry)) return pointwise_conv_bwd_weight(exec, args);
  const ConvShape shape =
      conv_extents<std::int64_t>(args.x.shape, args.dweight.shape, args.dy.shape, args.geometry);
  if (takes_winograd(ConvKind::kBwdWeight, shape, args.x.dtype, args.math)) {
    return winograd_conv_bwd_weight(exec, shape, args);
  }
  conv_bwd_weight_by_pieces(exec, shape, args);
}

}  // namespace trireme::cpu

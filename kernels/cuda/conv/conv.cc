// Convolutions: matrix products where possible, tiles of windows for few channels, cuDNN where it can, native
// (fallback) kernels for everything else.

#include "kernels/cuda/conv/conv_library.h"
#include "kernels/cuda/conv/gathered_conv.h"
#include "kernels/cuda/conv/native_conv.h"
#include "kernels/cuda/conv/strided_pixel_conv.h"
#include "kernels/cuda/conv/window_conv.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/product_workspace.h"

namespace trireme::cuda {
namespace {

// Channels-last images, or a 1 x 1 weight, as a matrix of `cols` columns.
template <class View>
View as_rows(View x, std::int64_t cols) {
  x.shape = Shape{cols == 0 ? 0 : x.num_elems() / cols, cols};
  return x;
}

template <class View>
View as_pixels(View x) {
  return as_rows(x, x.shape[3]);
}

}  // namespace

void run_op(const KernelContext& exec, const Conv2dFwdArgs& args) {
  check_dtype("conv2d_fwd", args.x.dtype, {args.weight, args.bias, args.y});
  if (args.y.num_elems() == 0) return;
  if (is_product(args.weight.shape, args.geometry)) {
    return run_op(exec, MatmulArgs{.a = as_pixels(args.x),
                                   .b = as_rows(args.weight, args.weight.shape[1]),
                                   .d = as_pixels(args.y),
                                   .transpose_b = Transpose::kYes,
                                   .math = args.math,
                                   .bias = args.bias});
  }
  if (suits_window_tiles(exec, args.weight.shape, args.geometry, args.x.dtype)) {
    return window_conv_fwd(exec, args);
  }
  if (gathers_windows(args.weight.shape, args.geometry, args.x.dtype)) return gathered_fwd(exec, args);
  if (stream_of(exec).conv_library().run_fwd(exec, args)) return;
  native_conv_fwd(exec, args);
}

void run_op(const KernelContext& exec, const Conv2dBwdDataArgs& args) {
  check_dtype("conv2d_bwd_data", args.dy.dtype, {args.weight, args.dx_add, args.dx});
  if (args.dx.num_elems() == 0) return;
  if (is_product(args.weight.shape, args.geometry)) {
    return run_op(exec,
                  MatmulArgs{.a = as_pixels(args.dy),
                             .b = as_rows(args.weight, args.weight.shape[1]),
                             .d = as_pixels(args.dx),
                             .math = args.math,
                             .residual = args.dx_add.defined() ? as_pixels(args.dx_add) : ConstTensorView{}});
  }
  if (is_strided_product(args.weight.shape, args.geometry)) return strided_pixel_bwd_data(exec, args);
  if (stream_of(exec).conv_library().run_bwd_data(exec, args)) return;
  native_conv_bwd_data(exec, args);
}

void run_op(const KernelContext& exec, const Conv2dBwdWeightArgs& args) {
  check_dtype("conv2d_bwd_weight", args.dy.dtype, {args.x});
  check_dtype("conv2d_bwd_weight", DType::kFloat32, {args.dweight});
  if (args.mode == GradientMode::kIgnore || args.dweight.num_elems() == 0) return;
  if (is_product(args.dweight.shape, args.geometry)) {
    return run_op(exec, MatmulArgs{.a = as_pixels(args.dy),
                                   .b = as_pixels(args.x),
                                   .d = as_rows(args.dweight, args.dweight.shape[1]),
                                   .transpose_a = Transpose::kYes,
                                   .math = args.math,
                                   .mode = args.mode});
  }
  if (args.dy.num_elems() > 0 && suits_window_tiles(exec, args.dweight.shape, args.geometry, args.x.dtype)) {
    return window_conv_bwd_weight(exec, args);
  }
  const bool gathers = gathers_windows(args.dweight.shape, args.geometry, args.x.dtype);
  if (!gathers && stream_of(exec).conv_library().run_bwd_weight(exec, args)) return;
  if (may_gather(args.geometry, args.x.dtype) && args.dy.num_elems() > 0) {
    return gathered_bwd_weight(exec, args);
  }
  native_conv_bwd_weight(exec, args);
}

}  // namespace trireme::cuda

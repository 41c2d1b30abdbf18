#include "kernels/cuda/conv/gathered_conv.h"

#include <algorithm>

#include "kernels/cuda/conv/conv_gather.cuh"
#include "kernels/cuda/conv/conv_weight.h"
#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

// Stays in the cache of a Hopper card between the copy and the product.
constexpr std::int64_t kChunkBytes = std::int64_t{32} << 20;

// windows[pixels, pitch]: those of x from `first` on, and zeros behind their R S C columns.
template <class T>
__global__ void gather_kernel(ConvShape s, const T* x, T* windows, int first, std::int64_t n, int columns,
                              int pitch) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int pixel = first + static_cast<int>(i / pitch), column = static_cast<int>(i % pitch);
  float value = 0.0f;
  if (column < columns) {
    value = image_at(s, x, 0, window_of(s, pixel), kernel_place(s, column, s.in_group));
  }
  windows[i] = from_float<T>(value);
}

}  // namespace

bool suits_gathering(const Conv2dBwdWeightArgs& args) {
  return args.x.dtype != DType::kFloat32 && args.geometry.groups == 1 && args.dy.num_elems() > 0;
}

void gathered_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args) {
  constexpr const char* kOp = "conv2d_bwd_weight";
  const ConvShape s = conv_shape(args.x.shape, args.dweight.shape, args.dy.shape, args.geometry);
  const int columns = s.kernel_height * s.kernel_width * s.in_group;
  const int pitch =
      static_cast<int>(ceil_div(columns, 8)) * 8;  // rows that tensor cores read 16 bytes at a time
  const std::int64_t elem = size_bytes(args.x.dtype),
                     pixels = std::int64_t{s.images} * s.out_height * s.out_width;
  const std::int64_t chunk =
      std::min(pixels, std::max<std::int64_t>(64, kChunkBytes / (elem * pitch) / 64 * 64));
  const Workspace windows(exec, static_cast<std::size_t>(chunk * pitch * elem));
  const Workspace packed(exec, static_cast<std::size_t>(std::int64_t{s.outputs} * pitch) * sizeof(float));
  for (std::int64_t first = 0; first < pixels; first += chunk) {
    const std::int64_t count = std::min(chunk, pixels - first), n = count * pitch;
    for_float_type(kOp, args.x.dtype, [&]<class T>(T) {
      launch(exec, kOp, grid_of(ceil_div(n, kThreads)), kThreads, 0, gather_kernel<T>, s, args.x.as<T>(),
             windows.as<T>(), static_cast<int>(first), n, columns, pitch);
    });
    const auto* dy = static_cast<const std::byte*>(args.dy.data) + first * s.outputs * elem;
    run_op(exec, MatmulArgs{.a = {dy, args.dy.dtype, Shape{count, s.outputs}},
                            .b = {windows.as<void>(), args.x.dtype, Shape{count, pitch}},
                            .d = {packed.as<void>(), DType::kFloat32, Shape{s.outputs, pitch}},
                            .transpose_a = Transpose::kYes,
                            .math = args.math,
                            .mode = first == 0 ? GradientMode::kOverwrite : GradientMode::kAccumulate});
  }
  unpack_conv_gradient(exec, kOp, s, packed.as<float>(), pitch, args.dweight, args.mode);
}

}  // namespace trireme::cuda

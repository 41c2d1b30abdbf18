#include "kernels/cuda/conv/conv_weight.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

// packed [O, pixels, packed_channels] = weight [O, channels, pixels]. `pitch` is the row length, `n` the
// number of packed elements.
template <class T>
__global__ void pack_kernel(const T* weight, T* packed, std::int64_t n, std::int64_t pitch,
                            std::int64_t channels, std::int64_t packed_channels, std::int64_t pixels) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t o = i / pitch, place = i % pitch, c = place % packed_channels,
                     p = place / packed_channels;
  const bool is_weight = c < channels && p < pixels;
  packed[i] = is_weight ? weight[(o * channels + c) * pixels + p] : from_float<T>(0.0f);
}

// gradient [O, channels, pixels] from packed [O, pixels, packed_channels]. `pitch` is the row length of
// `packed`, `n` the number of gradient elements.
__global__ void unpack_kernel(const float* packed, std::int64_t pitch, float* gradient, std::int64_t n,
                              std::int64_t channels, std::int64_t packed_channels, std::int64_t pixels,
                              bool accumulate) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t c = i % channels, p = i / channels % pixels, o = i / channels / pixels;
  float& to = gradient[(o * channels + c) * pixels + p];
  const float value = packed[o * pitch + p * packed_channels + c];
  to = accumulate ? to + value : value;
}

}  // namespace

void pack_conv_weight(const KernelContext& exec, const char* op, const ConvShape& shape,
                      ConstTensorView weight, std::int64_t pitch, void* packed) {
  const std::int64_t n = shape.outputs * pitch,
                     pixels = std::int64_t{shape.kernel_height} * shape.kernel_width;
  if (n == 0) return;
  for_float_type(op, weight.dtype, [&]<class T>(T) {
    launch(exec, op, grid_of(ceil_div(n, kThreads)), kThreads, 0, pack_kernel<T>, weight.as<T>(),
           static_cast<T*>(packed), n, pitch, weight.shape[1], std::int64_t{shape.in_group}, pixels);
  });
}

void unpack_conv_gradient(const KernelContext& exec, const char* op, const ConvShape& shape,
                          const float* packed, std::int64_t pitch, TensorView gradient, GradientMode mode) {
  const std::int64_t n = gradient.num_elems(),
                     pixels = std::int64_t{shape.kernel_height} * shape.kernel_width;
  if (n == 0 || mode == GradientMode::kIgnore) return;
  launch(exec, op, grid_of(ceil_div(n, kThreads)), kThreads, 0, unpack_kernel, packed, pitch,
         gradient.as<float>(), n, gradient.shape[1], std::int64_t{shape.in_group}, pixels,
         mode == GradientMode::kAccumulate);
}

}  // namespace trireme::cuda

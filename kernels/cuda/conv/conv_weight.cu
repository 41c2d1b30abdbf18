#include "kernels/cuda/conv/conv_weight.h"

#include "kernels/cuda/launch.cuh"

namespace trireme::cuda {
namespace {

// The index in [O, channels, pixels] of element `i` of [O, pixels, channels].
__device__ inline std::int64_t unpacked_index(std::int64_t i, std::int64_t channels, std::int64_t pixels) {
  const std::int64_t c = i % channels, p = i / channels % pixels, o = i / channels / pixels;
  return (o * channels + c) * pixels + p;
}

template <class T>
__global__ void pack_kernel(const T* weight, T* packed, std::int64_t n, std::int64_t channels,
                            std::int64_t pixels) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) packed[i] = weight[unpacked_index(i, channels, pixels)];
}

__global__ void unpack_kernel(const float* packed, std::int64_t pitch, float* gradient, std::int64_t n,
                              std::int64_t channels, std::int64_t pixels, bool accumulate) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float& to = gradient[unpacked_index(i, channels, pixels)];
  const float value = packed[i / (channels * pixels) * pitch + i % (channels * pixels)];
  to = accumulate ? to + value : value;
}

}  // namespace

void pack_conv_weight(const KernelContext& exec, const char* op, const ConvShape& shape,
                      ConstTensorView weight, void* packed) {
  const std::int64_t n = shape.weight_elems(),
                     pixels = std::int64_t{shape.kernel_height} * shape.kernel_width;
  if (n == 0) return;
  for_float_type(op, weight.dtype, [&]<class T>(T) {
    launch(exec, op, grid_of(ceil_div(n, kThreads)), kThreads, 0, pack_kernel<T>, weight.as<T>(),
           static_cast<T*>(packed), n, shape.in_group, pixels);
  });
}

void unpack_conv_gradient(const KernelContext& exec, const char* op, const ConvShape& shape,
                          const float* packed, std::int64_t pitch, TensorView gradient, GradientMode mode) {
  const std::int64_t n = shape.weight_elems(),
                     pixels = std::int64_t{shape.kernel_height} * shape.kernel_width;
  if (n == 0 || mode == GradientMode::kIgnore) return;
  launch(exec, op, grid_of(ceil_div(n, kThreads)), kThreads, 0, unpack_kernel, packed, pitch,
         gradient.as<float>(), n, shape.in_group, pixels, mode == GradientMode::kAccumulate);
}

}  // namespace trireme::cuda

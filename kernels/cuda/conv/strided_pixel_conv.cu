#include "kernels/cuda/conv/strided_pixel_conv.h"

#include "kernels/cuda/conv/conv_shape.h"
#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

constexpr const char* kOp = "conv2d_bwd_data";

// dx = product [out pixels, C] at the pixels that the stride samples, + addend. One block per row of an
// image, N channels per access.
template <class Sum, class T, int N>
__global__ void __launch_bounds__(kThreads)
    spread_kernel(ConvShape s, const Sum* product, const T* addend, T* dx) {
  const int row = static_cast<int>(blockIdx.x), image = row / s.height, h = row % s.height;
  const int packs = s.channels / N;
  const bool is_met = h % s.stride == 0;
  const std::int64_t first = std::int64_t{row} * s.width * s.channels;
  const std::int64_t out_row = std::int64_t{image} * s.out_height + h / s.stride;
  for (int i = static_cast<int>(threadIdx.x); i < s.width * packs; i += kThreads) {
    const int w = i / packs;
    const std::int64_t at = first + std::int64_t{i} * N;
    float value[N] = {};
    if (addend != nullptr) load<N>(addend + at, value);
    if (is_met && w % s.stride == 0) {
      float sum[N];
      load<N>(product + (out_row * s.out_width + w / s.stride) * s.channels + (i - w * packs) * N, sum);
#pragma unroll
      for (int e = 0; e < N; ++e) value[e] += sum[e];
    }
    store<N>(dx + at, value);
  }
}

// dx += product at the pixels that the stride samples. One block per row of the product.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) add_met_kernel(ConvShape s, const float* product, T* dx) {
  const int row = static_cast<int>(blockIdx.x), image = row / s.out_height, i = row % s.out_height;
  const int packs = s.channels / N;
  const float* const from = product + std::int64_t{row} * s.out_width * s.channels;
  T* const to = dx + (std::int64_t{image} * s.height + i * s.stride) * s.width * s.channels;
  for (int k = static_cast<int>(threadIdx.x); k < s.out_width * packs; k += kThreads) {
    const int j = k / packs;
    T* const at = to + std::int64_t{j} * s.stride * s.channels + (k - j * packs) * N;
    float value[N], sum[N];
    load<N>(at, value);
    load<N>(from + std::int64_t{k} * N, sum);
#pragma unroll
    for (int e = 0; e < N; ++e) value[e] += sum[e];
    store<N>(at, value);
  }
}

template <class T>
void spread(const KernelContext& exec, const ConvShape& s, ConstTensorView product,
            const Conv2dBwdDataArgs& args) {
  T* const dx = args.dx.as<T>();
  const T* const addend = args.dx_add.as<T>();
  with_pack<T>(rows_are_packable(s.channels, sizeof(T), {dx, addend}),
               [&]<int N>(std::integral_constant<int, N>) {
                 if (addend == dx) {
                   return launch(exec, kOp, grid_of(std::int64_t{s.images} * s.out_height), kThreads, 0,
                                 add_met_kernel<T, N>, s, product.as<float>(), dx);
                 }
                 const auto run = [&]<class Sum>(const Sum* sum) {
                   launch(exec, kOp, grid_of(std::int64_t{s.images} * s.height), kThreads, 0,
                          spread_kernel<Sum, T, N>, s, sum, addend, dx);
                 };
                 product.dtype == DType::kFloat32 ? run(product.as<float>()) : run(product.as<T>());
               });
}

}  // namespace

void strided_pixel_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args) {
  const ConvShape s = conv_shape(args.dx.shape, args.weight.shape, args.dy.shape, args.geometry);
  TRIREME_CHECK(std::int64_t{s.width} * s.channels <= 0x7ffff000,
                "{} on cuda: rows of {} pixels and {} channels are too long", kOp, s.width, s.channels);
  const Shape rows{s.out_pixels(), s.channels};
  const DType dtype = args.dx_add.defined() ? DType::kFloat32 : args.dx.dtype;
  const Workspace product(exec, static_cast<std::size_t>(rows.num_elems() * size_bytes(dtype)));
  run_op(exec, MatmulArgs{.a = {args.dy.data, args.dy.dtype, Shape{s.out_pixels(), s.outputs}},
                          .b = {args.weight.data, args.weight.dtype, Shape{s.outputs, s.channels}},
                          .d = {product.as<void>(), dtype, rows},
                          .math = args.math});
  for_float_type(kOp, args.dx.dtype, [&]<class T>(T) {
    spread<T>(exec, s, {product.as<void>(), dtype, rows}, args);
  });
}

}  // namespace trireme::cuda

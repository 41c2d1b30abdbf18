#include "kernels/cuda/conv/channel_padding.h"

#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

// 16-byte accesses per thread. A thread reads for all of them before it writes.
constexpr int kAtOnce = 4;

// `n` 16-byte accesses, `packs` of them per pixel. Neighbouring threads write neighbouring accesses.
template <class T>
__global__ void __launch_bounds__(kThreads)
    pad_kernel(const T* images, T* padded, std::int64_t n, int channels, int packs) {
  constexpr int N = kPack<T>;
  const std::int64_t first = std::int64_t{blockIdx.x} * (kThreads * kAtOnce) + threadIdx.x;
  Pack<T, N> out[kAtOnce];
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k) {
    const std::int64_t i = first + k * kThreads, pixel = packs == 1 ? i : i / packs;
    const int channel = static_cast<int>(i - pixel * packs) * N, left = i < n ? channels - channel : 0;
    const T* const from = images + pixel * channels + channel;
#pragma unroll
    for (int e = 0; e < N; ++e) out[k].elems[e] = e < left ? from[e] : from_float<T>(0.0f);
  }
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k) {
    const std::int64_t i = first + k * kThreads;
    if (i < n) reinterpret_cast<Pack<T, N>*>(padded)[i] = out[k];
  }
}

// `addend` may be `images`, because each thread reads an element before it writes it.
template <class Sum, class T>
__global__ void unpad_kernel(const Sum* padded, const T* addend, T* images, std::int64_t n, int channels,
                             int pitch) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t pixel = i / channels;
  float value = to_float(padded[pixel * pitch + (i - pixel * channels)]);
  if (addend != nullptr) value += to_float(addend[i]);
  images[i] = from_float<T>(value);
}

}  // namespace

void pad_channels(const KernelContext& exec, const char* op, ConstTensorView images, std::int64_t pitch,
                  void* padded) {
  const std::int64_t channels = images.shape[3];
  if (images.num_elems() == 0) return;
  for_float_type(op, images.dtype, [&]<class T>(T) {
    assert(pitch % kPack<T> == 0 && pitch > channels);
    const std::int64_t packs = pitch / kPack<T>, n = images.num_elems() / channels * packs;
    launch(exec, op, grid_of(ceil_div(n, kThreads * kAtOnce)), kThreads, 0, pad_kernel<T>, images.as<T>(),
           static_cast<T*>(padded), n, static_cast<int>(channels), static_cast<int>(packs));
  });
}

void unpad_channels(const KernelContext& exec, const char* op, ConstTensorView padded, ConstTensorView addend,
                    TensorView images) {
  const std::int64_t n = images.num_elems();
  if (n == 0) return;
  const auto channels = static_cast<int>(images.shape[3]), pitch = static_cast<int>(padded.shape[3]);
  for_float_type(op, images.dtype, [&]<class T>(T) {
    const auto run = [&]<class Sum>(const Sum* sum) {
      launch(exec, op, grid_of(ceil_div(n, kThreads)), kThreads, 0, unpad_kernel<Sum, T>, sum, addend.as<T>(),
             images.as<T>(), n, channels, pitch);
    };
    padded.dtype == DType::kFloat32 ? run(padded.as<float>()) : run(padded.as<T>());
  });
}

}  // namespace trireme::cuda

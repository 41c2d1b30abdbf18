// Quantization to fp8 codes, and the conversions of codes that products need. See [Note: fp8]. All arithmetic
// is in runtime/base/fp8.h, so the codes equal the CPU's.
#include "kernels/cuda/quantize.h"

#include <algorithm>
#include <cassert>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"
#include "runtime/base/fp8.h"

namespace trireme::cuda {
namespace {

// Enough blocks to fill a card. A thread then advances by the size of the grid.
constexpr std::int64_t kMostBlocks = 2048;

dim3 grid_for(std::int64_t n, int elems) {
  return grid_of(std::min(kMostBlocks, ceil_div(n, std::int64_t{elems} * kThreads)));
}

// Magnitudes are not negative, so their bit patterns are ordered like the numbers. A maximum has no summation
// order.
__device__ void raise(float* maximum, float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, value, offset);
    value = other > value ? other : value;
  }
  if (threadIdx.x % kWarp == 0) atomicMax(reinterpret_cast<int*>(maximum), __builtin_bit_cast(int, value));
}

// Calls visit(first, values) for all elements: N at a time, then the rest one at a time.
template <int N, class T, class Visit>
__device__ void for_each_pack(const T* x, std::int64_t n, const Visit& visit) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads * N;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * N; i < n; i += stride) {
    if (i + N <= n) {
      float values[N];
      load<N>(x + i, values);
      visit(i, values);
    } else {
      for (std::int64_t j = i; j < n; ++j) {
        const float value[1] = {to_float(x[j])};
        visit(j, value);
      }
    }
  }
}

template <int N>
__device__ float larger_magnitude(float largest, const float (&values)[N]) {
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const float magnitude = fabsf(values[j]);
    if (magnitude > largest) largest = magnitude;  // ignores NaN
  }
  return largest;
}

// Computes the tensor's own maximum, unless the history has one.
template <int N, class T>
__global__ void own_maximum_kernel(const T* x, std::int64_t n, const float* history, float* own) {
  if (history != nullptr && fp8_reference(history) > 0.0f) return;
  float largest = 0.0f;
  for_each_pack<N>(x, n,
                   [&](std::int64_t, const auto& values) { largest = larger_magnitude(largest, values); });
  raise(own, largest);
}

template <int N, class T>
__global__ void quantize_kernel(const T* x, std::int64_t n, const float* history, const float* own,
                                Fp8Format format, std::uint8_t* codes, float* inverse_scale, float* amax) {
  float reference = history != nullptr ? fp8_reference(history) : 0.0f;
  if (reference == 0.0f) reference = *own;
  const int exponent = fp8_scale_exponent(reference, format);
  const float scale = power_of_two(exponent);
  if (blockIdx.x == 0 && threadIdx.x == 0) *inverse_scale = power_of_two(-exponent);
  float largest = 0.0f;
  for_each_pack<N>(x, n, [&]<int M>(std::int64_t i, const float(&values)[M]) {
    largest = larger_magnitude(largest, values);
    Pack<std::uint8_t, M> pack;
#pragma unroll
    for (int j = 0; j < M; ++j) pack.elems[j] = fp8_of(values[j] * scale, format);
    *reinterpret_cast<Pack<std::uint8_t, M>*>(codes + i) = pack;
  });
  if (amax != nullptr) raise(amax, largest);
}

__global__ void dequantize_kernel(const std::uint8_t* codes, std::int64_t n, const float* inverse_scale,
                                  Fp8Format format, __nv_bfloat16* numbers) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) numbers[i] = from_float<__nv_bfloat16>(float_of_fp8(codes[i], format) * *inverse_scale);
}

constexpr int kTile = 64;  // codes per side; one block moves one tile

// N codes per access; N divides rows and columns.
template <int N>
__global__ void transpose_codes_kernel(const std::uint8_t* x, std::int64_t rows, std::int64_t cols,
                                       std::uint8_t* y) {
  using Codes = Pack<std::uint8_t, N>;
  alignas(4) __shared__ std::uint8_t tile[kTile][kTile + 4];
  constexpr int kAcross = kTile / N, kDown = kThreads / kAcross;  // threads
  const std::int64_t tiles_across = (cols + kTile - 1) / kTile;
  const std::int64_t first_row = blockIdx.x / tiles_across * kTile,
                     first_col = blockIdx.x % tiles_across * kTile;
  const int lane = static_cast<int>(threadIdx.x % kAcross) * N;
  for (int i = static_cast<int>(threadIdx.x / kAcross); i < kTile; i += kDown) {
    if (first_row + i < rows && first_col + lane < cols) {
      *reinterpret_cast<Codes*>(&tile[i][lane]) =
          *reinterpret_cast<const Codes*>(x + (first_row + i) * cols + first_col + lane);
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x / kAcross); i < kTile; i += kDown) {
    if (first_col + i < cols && first_row + lane < rows) {
      Codes codes;
#pragma unroll
      for (int j = 0; j < N; ++j) codes.elems[j] = tile[lane + j][i];
      *reinterpret_cast<Codes*>(y + (first_col + i) * rows + first_row + lane) = codes;
    }
  }
}

}  // namespace

bool is_fp8(DType dtype) {
  return dtype == DType::kE4m3 || dtype == DType::kE5m2;
}

void dequantize(const KernelContext& exec, ConstTensorView codes, ConstTensorView inverse_scale, void* bf16) {
  const std::int64_t n = codes.num_elems();
  if (n == 0) return;
  launch(exec, "dequantize", grid_of(ceil_div(n, kThreads)), kThreads, 0, dequantize_kernel,
         codes.as<std::uint8_t>(), n, inverse_scale.as<float>(), fp8_format(codes.dtype),
         static_cast<__nv_bfloat16*>(bf16));
}

void transpose_codes(const KernelContext& exec, ConstTensorView codes, void* transposed) {
  const std::int64_t rows = codes.shape[0], cols = codes.shape[1];
  const bool packed = rows % 4 == 0 && cols % 4 == 0 && are_aligned({codes.data, transposed});
  launch(exec, "transpose", grid_of(ceil_div(rows, kTile) * ceil_div(cols, kTile)), kThreads, 0,
         packed ? transpose_codes_kernel<4> : transpose_codes_kernel<1>, codes.as<std::uint8_t>(), rows, cols,
         static_cast<std::uint8_t*>(transposed));
}

void run_op(const KernelContext& exec, const QuantizeArgs& args) {
  const std::int64_t n = args.x.num_elems();
  assert(args.y.num_elems() == n);
  check_dtype("quantize", DType::kFloat32, {args.history, args.inverse_scale, args.amax});
  if (!is_fp8(args.y.dtype)) {
    throw Error(ErrorCode::kUnsupported, "quantize on cuda makes e4m3 and e5m2, not {}", name(args.y.dtype));
  }
  const Workspace own(exec, sizeof(float));
  fill_zero(exec, {own.as<float>(), DType::kFloat32, Shape{}});
  for_float_type("quantize", args.x.dtype, [&]<class T>(T) {
    with_pack<T>(are_aligned({args.x.data, args.y.data}), [&]<int N>(std::integral_constant<int, N>) {
      const T* x = args.x.as<T>();
      const float* history = args.history.as<float>();
      launch(exec, "quantize", grid_for(std::max<std::int64_t>(n, 1), N), kThreads, 0,
             own_maximum_kernel<N, T>, x, n, history, own.as<float>());
      launch(exec, "quantize", grid_for(std::max<std::int64_t>(n, 1), N), kThreads, 0, quantize_kernel<N, T>,
             x, n, history, own.as<float>(), fp8_format(args.y.dtype), args.y.as<std::uint8_t>(),
             args.inverse_scale.as<float>(), args.amax.as<float>());
    });
  });
}

}  // namespace trireme::cuda

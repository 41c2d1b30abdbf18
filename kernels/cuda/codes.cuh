// fp8 codes of a kernel's result, in both orders: see [Note: fp8]. All arithmetic is in runtime/base/fp8.h,
// so the codes equal the CPU's.
//
// A source computes the result. The result is a row of kParts sections of `cols` columns:
//
//     static constexpr int kParts;
//     template <int N>
//     __device__ void read(std::int64_t row, std::int64_t col, float (&values)[kParts][N]) const;
//
// read() sets the N elements of every section that begin at `col`, rounded to the dtype of the call. A block
// computes one tile. A thread computes four rows of eight columns: four codes of a column fill one word of
// the transposed tile, which is in shared memory.
#pragma once

#if defined(__CUDACC__)
#include <cuda_fp8.h>
#endif

#include <algorithm>
#include <cfloat>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"
#include "runtime/base/fp8.h"

namespace trireme::cuda {

inline constexpr int kCodeRows = 4, kCodeCols = 8;                // of a thread
inline constexpr int kCodesAcross = 8;                            // threads of a tile's row
inline constexpr int kCodeTileCols = kCodesAcross * kCodeCols;    // 64
inline constexpr int kCodeTileWords = kThreads / kCodesAcross;    // words of a tile's column
inline constexpr int kCodeTileRows = kCodeRows * kCodeTileWords;  // 128
static_assert(kCodeTileWords == kWarp);

/// A CodesOutput on the device.
struct CodePlaces {
  const float* history = nullptr;  // null: empty
  const float* own = nullptr;      // the result's own maximum, while the history is empty
  std::uint8_t* codes = nullptr;
  std::uint8_t* turned = nullptr;
  float* inverse_scale = nullptr;
  float* amax = nullptr;
};

/// The rows and columns of a thread.
struct CodePosition {
  std::int64_t first_row, first_col;  // of the tile
  std::int64_t row, col;              // of the thread

  __device__ CodePosition(std::int64_t tile, std::int64_t cols) {
    const std::int64_t across = cols > 0 ? ceil_div(cols, kCodeTileCols) : 1;
    first_row = tile / across * kCodeTileRows;
    first_col = tile % across * kCodeTileCols;
    row = first_row + std::int64_t{threadIdx.x} / kCodesAcross * kCodeRows;
    col = first_col + std::int64_t{threadIdx.x} % kCodesAcross * kCodeCols;
  }
};

/// fp8_reference(), by a warp. All lanes must call.
__device__ inline float reference_of(const float* history) {
  if (history == nullptr) return 0.0f;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  float largest = lane < kFp8History ? history[lane] : 0.0f;
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, largest, offset);
    largest = other > largest ? other : largest;
  }
  return largest;
}

/// maximum = max(maximum, values of the warp). Magnitudes are not negative, so their bit patterns are ordered
/// like the numbers. A maximum has no summation order. Most warps find a larger value there and skip the
/// atomic.
__device__ inline void raise(float* maximum, float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, value, offset);
    value = other > value ? other : value;
  }
  if (threadIdx.x % kWarp == 0 && value > *static_cast<volatile float*>(maximum))
    atomicMax(reinterpret_cast<int*>(maximum), __builtin_bit_cast(int, value));
}

/// The elements of a thread in one row; 0 behind the last column. With kPacked, `cols` is a multiple of
/// kCodeCols.
template <bool kPacked, class Source>
__device__ void read_row(const Source& source, std::int64_t row, std::int64_t col, std::int64_t cols,
                         float (&values)[Source::kParts][kCodeCols]) {
  if constexpr (kPacked) {
    if (col < cols) return source.read(row, col, values);
  }
#pragma unroll
  for (int j = 0; j < kCodeCols; ++j) {
    float one[Source::kParts][1] = {};
    if (!kPacked && col + j < cols) source.read(row, col + j, one);
#pragma unroll
    for (int part = 0; part < Source::kParts; ++part) values[part][j] = one[part][0];
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

/// Computes the result's own maximum, unless the history has one.
template <bool kPacked, class Source>
__global__ void own_maximum_kernel(Source source, std::int64_t rows, std::int64_t cols, std::int64_t tiles,
                                   const float* history, float* own) {
  if (reference_of(history) > 0.0f) return;
  float largest = 0.0f;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const CodePosition at(tile, cols);
    for (int i = 0; i < kCodeRows && at.row + i < rows; ++i) {
      float values[Source::kParts][kCodeCols];
      read_row<kPacked>(source, at.row + i, at.col, cols, values);
#pragma unroll
      for (int part = 0; part < Source::kParts; ++part) largest = larger_magnitude(largest, values[part]);
    }
  }
  raise(own, largest);
}

/// The codes of values * scale. A card converts finite numbers itself: in pairs, to nearest, ties to even,
/// saturating, as fp8_of() does. It would make infinities finite, and NaN positive.
template <bool kIsE4m3, int N>
__device__ Pack<std::uint8_t, N> codes_of(const float (&values)[N], float scale) {
  constexpr Fp8Format kFormat = kIsE4m3 ? kE4m3 : kE5m2;
  Pack<std::uint8_t, N> codes;
#if defined(__CUDA_ARCH__)
  bool is_finite = true;
#pragma unroll
  for (int j = 0; j < N; ++j) is_finite = is_finite && fabsf(values[j] * scale) <= FLT_MAX;
  if (is_finite) {
#pragma unroll
    for (int j = 0; j < N; j += 2) {
      const __nv_fp8x2_storage_t pair =
          __nv_cvt_float2_to_fp8x2(make_float2(values[j] * scale, values[j + 1] * scale), __NV_SATFINITE,
                                   kIsE4m3 ? __NV_E4M3 : __NV_E5M2);
      codes.elems[j] = static_cast<std::uint8_t>(pair);
      codes.elems[j + 1] = static_cast<std::uint8_t>(pair >> 8);
    }
    return codes;
  }
#endif
#pragma unroll
  for (int j = 0; j < N; ++j) codes.elems[j] = fp8_of(values[j] * scale, kFormat);
  return codes;
}

/// Stores the first `count` bytes of a pack.
template <bool kPacked, int N>
__device__ void store_codes(std::uint8_t* p, const Pack<std::uint8_t, N>& pack, std::int64_t count) {
  if constexpr (kPacked) {
    if (count > 0) *reinterpret_cast<Pack<std::uint8_t, N>*>(p) = pack;
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (j < count) p[j] = pack.elems[j];
    }
  }
}

/// With kPacked, `cols` is a multiple of kCodeCols, and `rows` of kCodeRows if turned codes are wanted.
template <bool kPacked, bool kIsE4m3, class Source>
__global__ void codes_kernel(Source source, std::int64_t rows, std::int64_t cols, CodePlaces out) {
  constexpr int kParts = Source::kParts;
  constexpr Fp8Format kFormat = kIsE4m3 ? kE4m3 : kE5m2;
  __shared__ std::uint32_t turned[kParts][kCodeTileCols][kCodeTileWords + 1];
  float reference = reference_of(out.history);
  if (reference == 0.0f) reference = *out.own;
  const int exponent = fp8_scale_exponent(reference, kFormat);
  const float scale = power_of_two(exponent);
  if (blockIdx.x == 0 && threadIdx.x == 0) *out.inverse_scale = power_of_two(-exponent);

  const CodePosition at(blockIdx.x, cols);
  std::uint32_t words[kParts][kCodeCols] = {};
  float largest = 0.0f;
#pragma unroll
  for (int i = 0; i < kCodeRows; ++i) {
    const std::int64_t row = at.row + i;
    if (row >= rows) break;
    float values[kParts][kCodeCols];
    read_row<kPacked>(source, row, at.col, cols, values);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      largest = larger_magnitude(largest, values[part]);
      const auto codes = codes_of<kIsE4m3>(values[part], scale);
#pragma unroll
      for (int j = 0; j < kCodeCols; ++j) {
        words[part][j] |= std::uint32_t{codes.elems[j]} << (8 * i);
      }
      if (out.codes == nullptr) continue;
      store_codes<kPacked>(out.codes + (row * kParts + part) * cols + at.col, codes, cols - at.col);
    }
  }
  if (out.amax != nullptr) raise(out.amax, largest);
  if (out.turned == nullptr) return;

  const auto warp = static_cast<int>(threadIdx.x / kWarp), lane = static_cast<int>(threadIdx.x % kWarp);
  const auto word = static_cast<int>(threadIdx.x / kCodesAcross);
  const auto left = static_cast<int>(threadIdx.x % kCodesAcross) * kCodeCols;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
#pragma unroll
    for (int j = 0; j < kCodeCols; ++j) turned[part][left + j][word] = words[part][j];
  }
  __syncthreads();
  const std::int64_t row = at.first_row + lane * kCodeRows;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    for (int c = warp; c < kCodeTileCols; c += kThreads / kWarp) {
      const std::int64_t col = at.first_col + c;
      if (col >= cols) break;
      const auto codes = __builtin_bit_cast(Pack<std::uint8_t, kCodeRows>, turned[part][c][lane]);
      store_codes<kPacked>(out.turned + (part * cols + col) * rows + row, codes, rows - row);
    }
  }
}

/// Writes the codes of the result of `source`, `rows` rows of kParts sections of `cols` columns. `aligned`:
/// read() may access kCodeCols elements at a time. Allocates codes_workspace().
template <class Source>
void write_codes(const KernelContext& exec, const char* op, const Source& source, std::int64_t rows,
                 std::int64_t cols, const CodesOutput& out, bool aligned) {
  check_dtype(op, DType::kFloat32, {out.history, out.inverse_scale, out.amax});
  const bool is_e4m3 = out.dtype() == DType::kE4m3;
  if (!is_e4m3 && out.dtype() != DType::kE5m2) {
    throw Error(ErrorCode::kUnsupported, "{} on cuda makes e4m3 and e5m2, not {}", op, name(out.dtype()));
  }
  check_dtype(op, out.dtype(), {out.codes, out.turned});
  const Workspace own(exec, sizeof(float));
  fill_zero(exec, {own.as<float>(), DType::kFloat32, Shape{}});
  const CodePlaces places{.history = out.history.as<float>(),
                          .own = own.as<float>(),
                          .codes = out.codes.as<std::uint8_t>(),
                          .turned = out.turned.as<std::uint8_t>(),
                          .inverse_scale = out.inverse_scale.as<float>(),
                          .amax = out.amax.as<float>()};
  const std::int64_t tiles =
      std::max<std::int64_t>(1, ceil_div(rows, kCodeTileRows) * ceil_div(cols, kCodeTileCols));
  const auto run = [&]<bool kPacked>(std::bool_constant<kPacked>) {
    constexpr std::int64_t kMostBlocks = 1024;  // enough to fill a card
    launch(exec, op, grid_of(std::min(kMostBlocks, tiles)), kThreads, 0, own_maximum_kernel<kPacked, Source>,
           source, rows, cols, tiles, places.history, own.as<float>());
    launch(exec, op, grid_of(tiles), kThreads, 0,
           is_e4m3 ? codes_kernel<kPacked, true, Source> : codes_kernel<kPacked, false, Source>, source, rows,
           cols, places);
  };
  if (aligned && cols % kCodeCols == 0 && (places.turned == nullptr || rows % kCodeRows == 0) &&
      are_aligned({places.codes, places.turned})) {
    run(std::true_type{});
  } else {
    run(std::false_type{});
  }
}

}  // namespace trireme::cuda

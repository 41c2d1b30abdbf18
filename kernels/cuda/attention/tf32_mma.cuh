// Products of fp32 matrices on tensor cores of sm_80 and later, which multiply factors of 10 mantissa bits.
//
// [Note: three products for one] x = big + small, both tf32: big is x rounded, and small is the rounded rest.
// Then x y = big big + big small + small big, up to 2^-22 of |x y|, which is as small as the roundings of an
// fp32 sum (Ootomo and Yokota 2022). Tensor cores may truncate their sums where fp32 rounds, and truncation
// errors add up in one direction. So tensor cores sum over kMmaDepth factors only, the small products
// separately from the big ones, and the plain cores add these sums. Products are issued in the order of their
// factors' roles, not of their positions in an instruction. So a recomputed score has the same bits.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace trireme::cuda {

/// Number of factors summed on tensor cores before the sum is added in fp32: four instructions.
inline constexpr int kMmaDepth = 32;
inline constexpr int kMmaSteps = kMmaDepth / 8;
/// The shape of one instruction's result.
inline constexpr int kMmaRows = 16, kMmaCols = 8;

/// The tensor core products that replace one product of fp32 factors.
enum class MmaPrecision { kTf32, kThreeTf32 };

/// d += a b for [16, 8] and [8, 8], computed by all lanes of a warp. Lane 4 g + t holds these elements. Of
/// `a`: (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4). Of `b`: (t, g), (t + 4, g). Of `d`: (g, 2 t), (g, 2 t
/// + 1), (g + 8, 2 t), (g + 8, 2 t + 1). Source: PTX ISA, "Matrix Fragments for mma.m16n8k8".
__device__ inline void mma_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#if !defined(__CUDACC__)
  emulated_mma_tf32(d, a, b);
#elif __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif defined(__CUDA_ARCH__)
  __trap();  // unreachable: see has_tensor_cores()
#endif
}

__device__ inline std::uint32_t bits_of(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}
__device__ inline float float_of(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float x = 0.0f;
  std::memcpy(&x, &bits, sizeof x);
  return x;
#endif
}

inline constexpr std::uint32_t kTf32Bits = ~0x1fffu;

/// Rounds to 10 mantissa bits, ties away from zero. NaN stays NaN.
__device__ inline float round_to_tf32(float x) {
  return x == x ? float_of((bits_of(x) + 0x1000u) & kTf32Bits) : x;
}

/// The tensor core factors of one fp32 number.
template <MmaPrecision kPrecision>
struct Tf32Factors {
  std::uint32_t big, small;

  /// For kTf32, `x` is already rounded. Rounding may turn a NaN into a number, but `small` is then NaN.
  __device__ static Tf32Factors of(float x) {
    if constexpr (kPrecision == MmaPrecision::kTf32) return {bits_of(x), 0u};
    const std::uint32_t big = (bits_of(x) + 0x1000u) & kTf32Bits;
    return {big, bits_of(x - float_of(big)) & kTf32Bits};
  }
};

/// sum[n] += left right for a left matrix [16, kMmaDepth] and a right one [kMmaDepth, 8 kTiles], computed by
/// a warp. left(step, i) and right(step, n, i) return element i of the lane's fragment, as in mma_tf32().
template <MmaPrecision kPrecision, int kTiles, class Left, class Right>
__device__ void add_mma_product(float (&sum)[kTiles][4], Left left, Right right) {
  using Factors = Tf32Factors<kPrecision>;
  std::uint32_t big_left[kMmaSteps][4], small_left[kMmaSteps][4];
#pragma unroll
  for (int step = 0; step < kMmaSteps; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Factors factors = Factors::of(left(step, i));
      big_left[step][i] = factors.big;
      small_left[step][i] = factors.small;
    }
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    float big[4] = {}, small[4] = {};
#pragma unroll
    for (int step = 0; step < kMmaSteps; ++step) {
      const Factors first = Factors::of(right(step, n, 0)), second = Factors::of(right(step, n, 1));
      const std::uint32_t big_right[2] = {first.big, second.big};
      if constexpr (kPrecision == MmaPrecision::kThreeTf32) {
        const std::uint32_t small_right[2] = {first.small, second.small};
        mma_tf32(small, small_left[step], big_right);
        mma_tf32(small, big_left[step], small_right);
      }
      mma_tf32(big, big_left[step], big_right);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) sum[n][e] += big[e] + small[e];
  }
}

}  // namespace trireme::cuda

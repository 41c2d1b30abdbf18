// Products of 16-bit matrices on tensor cores of sm_80 and later, accumulated in fp32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace trireme::cuda {

/// d += a b for [16, 16] and [16, 8] of T, computed by all lanes of a warp. Lane 4 g + t holds two
/// neighbouring elements per word. Of `a`: (g, 2 t), (g + 8, 2 t), (g, 2 t + 8), (g + 8, 2 t + 8), along a
/// row. Of `b`: (2 t, g), (2 t + 8, g), down a column. Of `d`: (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8,
/// 2 t + 1). Source: PTX ISA, "Matrix Fragments for mma.m16n8k16".
template <class T>
__device__ inline void mma_16_bit(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  constexpr bool kIsHalf = std::is_same_v<T, __half>;
#if !defined(__CUDACC__)
  emulated_mma_16_bit(d, a, b, kIsHalf);
#elif __CUDA_ARCH__ >= 800
  if constexpr (kIsHalf) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#elif defined(__CUDA_ARCH__)
  (void)kIsHalf;
  __trap();  // unreachable: see has_tensor_cores()
#endif
}

/// Packs two elements into a word, the first in its lower half.
template <class T>
__device__ inline std::uint32_t word_of(const T& low, const T& high) {
  std::uint16_t first = 0, second = 0;
  std::memcpy(&first, &low, sizeof first);
  std::memcpy(&second, &high, sizeof second);
  return first | (static_cast<std::uint32_t>(second) << 16);
}

}  // namespace trireme::cuda

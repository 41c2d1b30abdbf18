// Vectorised memory accesses: several neighbouring elements at a time, converted to floats.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace trireme::cuda {

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(__half x) {
  return __half2float(x);
}
__device__ inline float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

template <class T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/// Elements in the widest access, 16 bytes.
template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T elems[N];
};

template <int N, class T>
__device__ inline Pack<T, N> load_pack(const T* p) {
  return *reinterpret_cast<const Pack<T, N>*>(p);
}

/// p[0..N) as floats; p is aligned to N elements or to 16 bytes.
template <int N, class T>
__device__ inline void load(const T* p, float (&out)[N]) {
  const Pack<T, N> pack = load_pack<N>(p);
#pragma unroll
  for (int i = 0; i < N; ++i) out[i] = to_float(pack.elems[i]);
}

template <int N, class T>
__device__ inline void store(T* p, const float (&in)[N]) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.elems[i] = from_float<T>(in[i]);
  *reinterpret_cast<Pack<T, N>*>(p) = pack;
}

/// True when rows of `cols` elements of `elem_bytes` can be read 16 bytes at a time from all `pointers`.
inline bool rows_are_packable(std::int64_t cols, std::int64_t elem_bytes,
                              std::initializer_list<const void*> pointers) {
  if (cols * elem_bytes % 16 != 0) return false;
  for (const void* p : pointers) {
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) return false;
  }
  return true;
}

/// Calls run(std::integral_constant<int, N>) with the elements per access: kPack<T> if `packed`, else 1.
template <class T, class Run>
void with_pack(bool packed, const Run& run) {
  if (packed) {
    run(std::integral_constant<int, kPack<T>>{});
  } else {
    run(std::integral_constant<int, 1>{});
  }
}

/// True when all `pointers` are multiples of 16. Null counts as aligned.
inline bool are_aligned(std::initializer_list<const void*> pointers) {
  return rows_are_packable(0, 1, pointers);
}

}  // namespace trireme::cuda

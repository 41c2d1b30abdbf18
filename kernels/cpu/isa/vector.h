// The vector of this instruction set, and sums over vectors in a fixed order.
#pragma once

#include <cstdint>
#include <utility>
#if defined(__SSE__)
#include <immintrin.h>
#endif

namespace trireme::cpu::TRIREME_ISA {
namespace {

#if defined(__AVX512F__)
constexpr std::int64_t kLanes = 16;
#elif defined(__AVX__)
constexpr std::int64_t kLanes = 8;
#else
constexpr std::int64_t kLanes = 4;
#endif

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef std::int32_t Ints __attribute__((vector_size(kLanes * sizeof(std::int32_t))));

template <class T = Vector>
inline T load(const float* from) {
  T value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
inline void store(float* to, T value) {
  __builtin_memcpy(to, &value, sizeof value);
}

/// A non-temporal store where available, for values that are not read again soon. `to` is aligned to a
/// Vector.
inline void stream(float* to, Vector value) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, value);
#elif defined(__AVX__)
  _mm256_stream_ps(to, value);
#elif defined(__SSE__)
  _mm_stream_ps(to, value);
#else
  store(to, value);
#endif
}

/// Call after the last stream() and before other threads read.
inline void end_stream() {
#if defined(__SSE__)
  _mm_sfence();
#endif
}

constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

#if defined(__AVX512F__)
// The forms with a full mask avoid warnings of gcc 12 about the forms without one.
constexpr __mmask16 kAllLanes = 0xFFFF;
#endif

/// Lane-wise maximum and minimum; b where a or b is NaN.
inline Vector larger(Vector a, Vector b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(kAllLanes, a, b);
#else
  return a > b ? a : b;
#endif
}
inline Vector smaller(Vector a, Vector b) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_ps(kAllLanes, a, b);
#else
  return a < b ? a : b;
#endif
}

/// Calls body.template operator()<T>(i) for all i in [0, n): T = Vector for whole vectors, T = float for the
/// rest.
template <class Body>
inline void for_each_vector(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body.template operator()<Vector>(i);
  for (; i < n; ++i) body.template operator()<float>(i);
}

/// Lane l is lane `from(l)` of a; from kLanes on, of b.
template <class From, std::size_t... kLane>
inline Vector permuted(Vector a, Vector b, From from, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(a, b, from(static_cast<int>(kLane))...);
}
template <class From>
inline Vector permuted(Vector a, Vector b, From from) {
  return permuted(a, b, from, std::make_index_sequence<kLanes>());
}

/// The sum over a vector, by halving.
template <int kWidth = kLanes / 2>
inline float sum_of(Vector v) {
  v += permuted(v, v, [](int lane) { return (lane + kWidth) % static_cast<int>(kLanes); });
  if constexpr (kWidth > 1) return sum_of<kWidth / 2>(v);
  return v[0];
}

/// The sum of body.template operator()<T>(i) over [0, n). Four accumulators let additions overlap.
template <class Body>
inline float sum_over(std::int64_t n, const Body& body) {
  Vector sum[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) sum[v] += body.template operator()<Vector>(i + v * kLanes);
  }
  for (; i + kLanes <= n; i += kLanes) sum[0] += body.template operator()<Vector>(i);
  float rest = 0.0f;
  for (; i < n; ++i) rest += body.template operator()<float>(i);
  return sum_of((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
}

/// The maximum of x [n]; NaN may be ignored.
inline float max_over(const float* x, std::int64_t n) {
  float max = x[0];
  if (n >= 4 * kLanes) {
    Vector best[4];
    for (int v = 0; v < 4; ++v) best[v] = load(x + v * kLanes);
    std::int64_t i = 4 * kLanes;
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        const Vector next = load(x + i + v * kLanes);
        best[v] = next > best[v] ? next : best[v];
      }
    }
    for (int v = 0; v < 4; ++v) {
      for (std::int64_t l = 0; l < kLanes; ++l) max = best[v][l] > max ? best[v][l] : max;
    }
    for (; i < n; ++i) max = x[i] > max ? x[i] : max;
    return max;
  }
  for (std::int64_t i = 1; i < n; ++i) max = x[i] > max ? x[i] : max;
  return max;
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA

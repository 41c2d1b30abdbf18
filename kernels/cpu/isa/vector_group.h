// Groups of vectors that are processed in an interleaved order. A long chain of dependent operations leaves
// execution units idle. The processor overlaps several chains only if their operations alternate.
#pragma once

#include <cstddef>

#include "kernels/cpu/isa/vector.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <int kCount>
struct VectorGroup {
  Vector v[kCount];
};

/// {f(0), f(1), ...}
template <int kCount, class F>
[[gnu::always_inline]] inline VectorGroup<kCount> group_of(const F& f) {
  VectorGroup<kCount> result;
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) result.v[i] = f(i);
  return result;
}

template <int n>
[[gnu::always_inline]] inline VectorGroup<n> operator+(const VectorGroup<n>& a, const VectorGroup<n>& b) {
  return group_of<n>([&](int i) { return a.v[i] + b.v[i]; });
}
template <int n>
[[gnu::always_inline]] inline VectorGroup<n> operator-(const VectorGroup<n>& a, const VectorGroup<n>& b) {
  return group_of<n>([&](int i) { return a.v[i] - b.v[i]; });
}
template <int n>
[[gnu::always_inline]] inline VectorGroup<n> operator*(const VectorGroup<n>& a, const VectorGroup<n>& b) {
  return group_of<n>([&](int i) { return a.v[i] * b.v[i]; });
}
template <int n>
[[gnu::always_inline]] inline VectorGroup<n> operator+(const VectorGroup<n>& a, float b) {
  return group_of<n>([&](int i) { return a.v[i] + b; });
}
template <int n>
[[gnu::always_inline]] inline VectorGroup<n> operator-(const VectorGroup<n>& a, float b) {
  return group_of<n>([&](int i) { return a.v[i] - b; });
}
template <int n>
[[gnu::always_inline]] inline VectorGroup<n> operator*(const VectorGroup<n>& a, float b) {
  return group_of<n>([&](int i) { return a.v[i] * b; });
}

/// Loads and stores of whole vectors. PartOfVector handles `count` < kLanes floats with zeros beyond, so that
/// both use the same arithmetic.
struct WholeVectors {
  template <int kCount>
  VectorGroup<kCount> load(const float* from) const {
    return group_of<kCount>([&](int i) { return TRIREME_ISA::load(from + i * kLanes); });
  }
  template <int kCount>
  void store(float* to, const VectorGroup<kCount>& value) const {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) TRIREME_ISA::store(to + i * kLanes, value.v[i]);
  }
};

struct PartOfVector {
  std::int64_t count;

  template <int kCount>
  VectorGroup<1> load(const float* from) const {
    VectorGroup<1> value{};
    __builtin_memcpy(&value, from, bytes());
    return value;
  }
  void store(float* to, const VectorGroup<1>& value) const { __builtin_memcpy(to, &value, bytes()); }
  std::size_t bytes() const { return static_cast<std::size_t>(count) * sizeof(float); }
};

#if defined(__AVX512F__)
constexpr int kMostInGroup = 8;  // of 32 registers
#else
constexpr int kMostInGroup = 4;  // of 16
#endif

/// Calls body.template operator()<kCount>(i, whole vectors or a part of one) for groups that cover [0, n),
/// largest groups first.
template <int kCount = kMostInGroup, class Body>
inline void for_each_group(std::int64_t n, const Body& body, std::int64_t i = 0) {
  for (; i + kCount * kLanes <= n; i += kCount * kLanes) body.template operator()<kCount>(i, WholeVectors{});
  if constexpr (kCount > 1) {
    for_each_group<kCount / 2>(n, body, i);
  } else {
    if (i < n) body.template operator()<1>(i, PartOfVector{n - i});
  }
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA

// True if this build runs under a sanitizer. Sanitizers check memory and threads, not results, and are
// several times slower, so tests of results over many layouts run only a part of them.
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <vector>

namespace trireme::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// All of `values`; under a sanitizer only the first and every `stride`-th after it.
template <typename Values>
auto sampled(const Values& values, std::size_t stride) {
  std::vector<std::decay_t<decltype(*std::begin(values))>> some;
  std::size_t index = 0;
  for (const auto& value : values)
    if (!kSanitized || index++ % stride == 0) some.push_back(value);
  return some;
}

}  // namespace trireme::testing

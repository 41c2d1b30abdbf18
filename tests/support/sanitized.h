// Whether this build runs under a sanitizer, which looks at memory and threads, not at results, and is
// several times slower: a test of results over very many layouts takes a part of them there.
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

/// All of `values`; under a sanitizer the first of them and every `stride`-th after it.
template <typename Values>
auto sampled(const Values& values, std::size_t stride) {
  std::vector<std::decay_t<decltype(*std::begin(values))>> some;
  std::size_t index = 0;
  for (const auto& value : values)
    if (!kSanitized || index++ % stride == 0) some.push_back(value);
  return some;
}

}  // namespace trireme::testing

// Whether this build runs under a sanitizer, which looks at memory and threads, not at results, and is
// several times slower: a test of results over very many layouts takes a part of them there.
#pragma once

namespace trireme::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace trireme::testing

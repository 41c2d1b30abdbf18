// The one exception type of the engine and the check that throws it.
//
// A message names the culprit (file, key, rank, op, shapes) and what to
// do. Libraries throw; only launcher/main turns an Error into an exit code (2 bad input, 1 failed
// while running).
#pragma once

#include <fmt/core.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace trireme {

enum class ErrorCode {
  kInvalidInput,   // the caller's fault: configuration, file, shape; exit code 2
  kOutOfMemory,    // an allocation exceeded the device or its limit; exit code 1
  kCommunication,  // a peer died, stalled or disagreed; exit code 1
  kUnsupported,    // this build or backend lacks what was requested; exit code 2
  kRuntime,        // anything else that failed while running; exit code 1
};

/// A format text and the place that it stands at.
template <class... Args>
struct MessageFormat {
  template <class Text>
  consteval MessageFormat(const Text& format, std::source_location place = std::source_location::current())
      : text(format), where(place) {}

  fmt::format_string<Args...> text;
  std::source_location where;
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message,
        std::source_location where = std::source_location::current())
      : std::runtime_error(message), code_(code), where_(where) {}
  /// With the message fmt::format(format, first, rest...).
  template <class First, class... Rest>
  Error(ErrorCode code, MessageFormat<std::type_identity_t<First>, std::type_identity_t<Rest>...> format,
        First&& first, Rest&&... rest)
      : Error(code, fmt::format(format.text, std::forward<First>(first), std::forward<Rest>(rest)...),
              format.where) {}

  ErrorCode code() const { return code_; }
  /// File and line that threw; for logs, not part of what().
  const std::source_location& where() const { return where_; }

 private:
  ErrorCode code_;
  std::source_location where_;
};

}  // namespace trireme

/// Throws Error(kInvalidInput) with a formatted message unless `cond` holds. For what a caller can get wrong;
/// what only we can get wrong is an assert.
#define TRIREME_CHECK(cond, ...)                                                               \
  do {                                                                                         \
    if (!(cond)) [[unlikely]]                                                                  \
      throw ::trireme::Error(::trireme::ErrorCode::kInvalidInput, ::fmt::format(__VA_ARGS__)); \
  } while (false)

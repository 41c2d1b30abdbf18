// The one exception type of the engine and the check that throws it.
//
// A message names the culprit (file, field, rank, op, shapes) and what to do. It is for people: programs
// decide by the code and by ErrorFacts. Libraries throw and name fields; only the launcher
// knows the keys of fields and turns an Error into an exit code (2 bad input, 1 failed while running).
#pragma once

#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace trireme {

enum class ErrorCode {
  kInvalidInput,   // the caller's fault: configuration, file, shape; exit code 2
  kOutOfMemory,    // an allocation exceeded the device or its limit; exit code 1
  kCommunication,  // a peer died, stalled or disagreed; exit code 1
  kUnsupported,    // this build or backend lacks what was requested; exit code 2
  kRuntime,        // anything else that failed while running; exit code 1
  kNoProgress,     // the job ended without having learned anything, as it would again; exit code 1
};

/// The codes' names in records, in their order.
inline constexpr std::array<std::string_view, 6> kErrorCodeNames = {
    "invalid_input", "out_of_memory", "communication", "unsupported", "runtime", "no_progress"};

constexpr std::string_view name(ErrorCode code) {
  return kErrorCodeNames[static_cast<std::size_t>(code)];
}
/// Returns nothing for an unknown name.
constexpr std::optional<ErrorCode> find_error_code(std::string_view wanted) {
  for (std::size_t i = 0; i < kErrorCodeNames.size(); ++i) {
    if (kErrorCodeNames[i] == wanted) return static_cast<ErrorCode>(i);
  }
  return std::nullopt;
}

/// The subject of an error, as data. Unknown members are empty, unknown numbers -1.
struct ErrorFacts {
  std::string field = {};   // of an options struct: "EngineOptions::timeout_s"
  std::string value = {};   // of the field
  std::string file = {};    // or folder
  std::string host = {};    // at fault: its name, or its address
  int rank = -1;            // at fault
  std::string action = {};  // of that rank: "step 17, action 5 (Forward unit 3 micro-batch 1)"
  std::string block = {};   // that the action computes
  int micro_batch = -1;     // likewise
  std::string tensor = {};
  std::string remedy = {};  // what to do
  int system_error = 0;     // errno; 0: none

  bool operator==(const ErrorFacts&) const = default;
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

/// The text with escapes for NUL characters, where a C string would end.
inline std::string without_nul(std::string text) {
  for (std::size_t at; (at = text.find('\0')) != std::string::npos;) text.replace(at, 1, "\\x00");
  return text;
}

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message,
        std::source_location where = std::source_location::current())
      : std::runtime_error(without_nul(message)), code_(code), where_(where) {}
  /// With the message fmt::format(format, first, rest...).
  template <class First, class... Rest>
  Error(ErrorCode code, MessageFormat<std::type_identity_t<First>, std::type_identity_t<Rest>...> format,
        First&& first, Rest&&... rest)
      : Error(code, fmt::format(format.text, std::forward<First>(first), std::forward<Rest>(rest)...),
              format.where) {}

  ErrorCode code() const { return code_; }
  /// File and line that threw; for logs, not part of what().
  const std::source_location& where() const { return where_; }

  /// True if the message has several lines on purpose: [Note: terminal text].
  bool has_lines() const { return has_lines_; }

  const ErrorFacts& facts() const {
    static const ErrorFacts none;
    return facts_ ? *facts_ : none;
  }
  /// The same error with these facts in place of its own.
  Error about(ErrorFacts facts) const {
    Error error = *this;
    error.facts_ = std::make_shared<const ErrorFacts>(std::move(facts));
    return error;
  }
  /// The same facts and place with another message, as of whoever adds where it happened.
  Error saying(const std::string& message) const { return saying(code_, message); }
  Error saying(ErrorCode code, const std::string& message) const {
    Error error(code, message, where_);
    error.facts_ = facts_;
    error.has_lines_ = has_lines_;
    return error;
  }

 protected:
  bool has_lines_ = false;

 private:
  ErrorCode code_;
  std::source_location where_;
  std::shared_ptr<const ErrorFacts> facts_;  // null: none; shared, as exceptions are copied without throwing
};

}  // namespace trireme

/// Throws Error(kInvalidInput) with a formatted message unless `cond` holds. For what a caller can get wrong;
/// what only we can get wrong is an assert.
#define TRIREME_CHECK(cond, ...)                                                               \
  do {                                                                                         \
    if (!(cond)) [[unlikely]]                                                                  \
      throw ::trireme::Error(::trireme::ErrorCode::kInvalidInput, ::fmt::format(__VA_ARGS__)); \
  } while (false)

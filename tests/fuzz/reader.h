// The file readers, as fuzzers call them: one function that accepts any bytes, and valid examples as seeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "tests/fuzz/random.h"

namespace trireme::fuzz {

struct Reader {
  const char* name;
  /// Passes the bytes to the reader, which accepts them, or refuses them with an Error that blames the input.
  /// Anything else is a finding: another exception, or the end of the process. Returns 0, as libFuzzer
  /// requires.
  int (*fuzz_one)(const std::uint8_t* data, std::size_t size);
  /// Valid inputs, made by our own writers if there is one.
  std::vector<std::string> (*seeds)();
  /// Changes an input within its format; null: only bytes are changed.
  void (*change)(std::string& text, Random& random) = nullptr;
  /// Cost of one input relative to the fastest readers; the test reads fewer inputs of expensive readers.
  std::uint64_t effort = 1;
};

std::span<const Reader> readers();
/// Throws if there is no reader of that name.
const Reader& find_reader(std::string_view name);

// Defined in the readers' own files; see readers.cc.
extern const Reader kJobFile, kOverrides, kManifest, kDatasetInfo, kTokenFile, kDocumentFile, kBpe,
    kSafetensors, kCifar, kIdx, kJpeg, kPng, kBlockTimes, kMetrics, kHfConfig, kHfIndex, kSentencePiece,
    kWatchedRun, kHttpRequests;

/// Runs `action`, which may refuse the input. Returns true if the input was accepted.
template <class Action>
bool taken(Action&& action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidInput && error.code() != ErrorCode::kUnsupported) throw;
    return false;
  }
}

// Sanitizers take about six times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
inline constexpr double kMaxSeconds = 60;
#else
inline constexpr double kMaxSeconds = 10;
#endif

/// CPU time of all threads of this process.
double cpu_seconds();

/// Checks a property that must hold for every accepted input.
inline void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

/// Runs `action`, which must not take long in CPU time; a busy machine does not change that time.
template <class Action>
void in_time(Action&& action) {
  const double begin = cpu_seconds();
  action();
  require(cpu_seconds() - begin <= kMaxSeconds, "it takes too long");
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// True if `path`, after following all links, is below `folder`.
bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder);

/// A folder of this process, removed at its end.
const std::filesystem::path& scratch_folder();
void replace_file(const std::filesystem::path& path, std::string_view bytes);
/// Writes the bytes to a file in the scratch folder. `name` may contain an existing folder.
std::filesystem::path input_file(const char* name, std::string_view bytes);

}  // namespace trireme::fuzz

// The readers of files, as fuzzers call them: one function that takes any bytes, and valid examples to begin
// with.
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
  /// Gives the bytes to the reader. It takes them, or refuses them with an Error that blames the input.
  /// Whatever else happens is a finding: it leaves as another exception, or ends the process. Returns 0, as
  /// libFuzzer wants it.
  int (*fuzz_one)(const std::uint8_t* data, std::size_t size);
  /// Valid inputs, made by our own writers where there is one.
  std::vector<std::string> (*seeds)();
  /// Changes an input so that it stays of its format; null: only bytes are changed.
  void (*change)(std::string& text, Random& random) = nullptr;
  /// Of one input, in those of the quickest readers: the test reads fewer of them.
  std::uint64_t effort = 1;
};

std::span<const Reader> readers();
/// Throws where there is none of that name.
const Reader& find_reader(std::string_view name);

// Of each file; see readers.cc.
extern const Reader kJobFile, kOverrides, kManifest, kDatasetInfo, kTokenFile, kDocumentFile, kBpe,
    kSafetensors, kCifar, kIdx, kJpeg, kPng, kBlockTimes, kMetrics, kHfConfig, kHfIndex, kSentencePiece,
    kWatchedRun, kHttpRequests;

/// Runs `action`, of which a refusal of the input is a fine end. True: it was taken.
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

/// Of all threads of this process.
double cpu_seconds();

/// A property that must hold of an input that was taken.
inline void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

/// Runs `action`, which must not take long: CPU time, of which a busy machine has as much as another.
template <class Action>
void in_time(Action&& action) {
  const double begin = cpu_seconds();
  action();
  require(cpu_seconds() - begin <= kMaxSeconds, "it takes too long");
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Whether all links of `path` are followed to a place below `folder`.
bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder);

/// A folder of this process's own, removed at its end.
const std::filesystem::path& scratch_folder();
void replace_file(const std::filesystem::path& path, std::string_view bytes);
/// The bytes as a file in the folder. `name` may have a folder that exists.
std::filesystem::path input_file(const char* name, std::string_view bytes);

}  // namespace trireme::fuzz

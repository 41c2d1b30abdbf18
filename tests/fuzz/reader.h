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

namespace trireme::fuzz {

struct Reader {
  const char* name;
  /// Gives the bytes to the reader. It takes them, or refuses them with an Error that blames the input.
  /// Whatever else happens is a finding: it leaves as another exception, or ends the process. Returns 0, as
  /// libFuzzer wants it.
  int (*fuzz_one)(const std::uint8_t* data, std::size_t size);
  /// Valid inputs, made by our own writers where there is one.
  std::vector<std::string> (*seeds)();
};

std::span<const Reader> readers();
/// Throws where there is none of that name.
const Reader& find_reader(std::string_view name);

// Of each file; see readers.cc.
extern const Reader kJobFile, kOverrides, kManifest, kDatasetInfo, kTokenFile, kDocumentFile, kBpe,
    kSafetensors, kCifar, kIdx, kJpeg, kPng, kBlockTimes, kMetrics, kHfConfig, kHfIndex;

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

/// A property that must hold of an input that was taken.
inline void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A folder of this process's own, removed at its end.
const std::filesystem::path& scratch_folder();
void replace_file(const std::filesystem::path& path, std::string_view bytes);
/// The bytes as a file in the folder.
std::filesystem::path input_file(const char* name, std::string_view bytes);

}  // namespace trireme::fuzz

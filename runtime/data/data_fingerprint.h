// Identifies a set of samples by content, independent of file names and locations.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace trireme {

struct DataFingerprint {
  std::string contents;    // kind and count for messages: "1800 tokens"
  std::uint64_t hash = 0;  // of all samples with their labels, in file order
  // Hash of the names and labels of named samples, in file order; 0: samples have no names. If equal while
  // `hash` differs, files were replaced, for instance a damaged image was repaired.
  std::uint64_t names_hash = 0;

  bool operator==(const DataFingerprint& other) const { return hash == other.hash; }
  bool has_names_of(const DataFingerprint& other) const {
    return names_hash != 0 && names_hash == other.names_hash;
  }
};

/// "1800 tokens, hash 00c0ffee00c0ffee"
inline std::string to_string(const DataFingerprint& fingerprint) {
  return fmt::format("{}, hash {:016x}", fingerprint.contents, fingerprint.hash);
}

}  // namespace trireme

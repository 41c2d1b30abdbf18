// The identity of a set of samples: equal wherever and under whatever file names the same samples lie.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace trireme {

struct DataFingerprint {
  std::string contents;    // kind and count, for messages: "1800 tokens"
  std::uint64_t hash = 0;  // of all samples with their labels, in file order
  // Of the names and labels of samples that have names, in file order; 0: they have none. Where it is the
  // same and `hash` is not, files were replaced, as where a damaged picture was repaired.
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

// The manifest of a checkpoint: which files belong to it, and what the trainer noted. Written last, so a
// folder that has a whole one has everything.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/checkpoint/safetensors_writer.h"

namespace trireme {

struct Manifest {
  static constexpr const char* kFileName = "manifest.json";

  std::int64_t step = 0;
  std::vector<CheckpointFile> files;
  nlohmann::json content;  // the caller's own
};

/// Writes `folder`/manifest.json with a checksum of its own, whole and synced.
void write_manifest(const Manifest& manifest, const std::filesystem::path& folder);

/// Throws Error(kInvalidInput) when it is missing, damaged or of another version, lists no files, or lists
/// one whose name leaves the folder.
Manifest read_manifest(const std::filesystem::path& folder);

/// The size and checksum of a file of any kind, read whole.
CheckpointFile describe_file(const std::filesystem::path& path);

/// The thoroughness with which files are compared with the manifest.
enum class Verify : std::uint8_t {
  kSizes,      // they exist and have their sizes
  kChecksums,  // they are read whole, too
};

/// Throws Error(kInvalidInput) naming the first file that is missing, short, long or changed, or a link out
/// of the folder.
void verify_files(const Manifest& manifest, const std::filesystem::path& folder, Verify verify);

}  // namespace trireme

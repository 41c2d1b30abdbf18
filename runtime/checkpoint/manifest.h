// The manifest of a checkpoint: its files, and the caller's content. Written last, so a folder with a valid
// manifest is complete.
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
  nlohmann::json content;  // supplied by the caller
};

/// Writes `folder`/manifest.json atomically, with a checksum of itself, and syncs it.
void write_manifest(const Manifest& manifest, const std::filesystem::path& folder);

/// Throws Error(kInvalidInput) if the manifest is missing, damaged or of another version, lists no files, or
/// lists a name outside the folder.
Manifest read_manifest(const std::filesystem::path& folder);

/// Size and checksum of any file; reads the whole file.
CheckpointFile describe_file(const std::filesystem::path& path);

/// The checks of a comparison of files with the manifest.
enum class Verify : std::uint8_t {
  kSizes,      // they exist with the right sizes
  kChecksums,  // also reads them and compares checksums
};

/// Throws Error(kInvalidInput) naming the first file that is missing, too short, too long or changed, or a
/// link out of the folder, or a safetensors file that the manifest does not list.
void verify_files(const Manifest& manifest, const std::filesystem::path& folder, Verify verify);

}  // namespace trireme

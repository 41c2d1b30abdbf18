// The safetensors files of a folder in Hugging Face's layout: one file, or shards with an index.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors_reader.h"

namespace trireme {

class SafetensorsFolder {
 public:
  static constexpr const char* kFileName = "model.safetensors";
  static constexpr const char* kIndexName = "model.safetensors.index.json";

  /// Opens `folder`/`stem`.safetensors, or else every shard in `stem`.safetensors.index.json. Throws
  /// Error(kInvalidInput) naming the file if neither exists, if a shard is missing or damaged, if a tensor is
  /// not in the shard that the index names, or if two shards have it.
  explicit SafetensorsFolder(const std::filesystem::path& folder, const std::string& stem = "model");

  struct Found {
    const SafetensorsTensor* tensor;
    std::filesystem::path file;
  };
  /// Keyed by the name in the files.
  const std::map<std::string, Found>& tensors() const { return tensors_; }
  /// The single file, or the index.
  const std::filesystem::path& path() const { return path_; }

 private:
  void open_shards();
  void add(SafetensorsReader file);

  std::filesystem::path path_;
  std::vector<SafetensorsReader> files_;  // moving a reader keeps the pointers in tensors_ valid
  std::map<std::string, Found> tensors_;
};

}  // namespace trireme

// The safetensors of a folder as Hugging Face lays it out: one file, or shards and their index.
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

  /// Opens `folder`/model.safetensors, or else every shard that the index names. Throws Error(kInvalidInput)
  /// naming the file: there is neither, a shard is missing or damaged, a tensor is not in the shard that the
  /// index says, or in two.
  explicit SafetensorsFolder(const std::filesystem::path& folder);

  struct Found {
    const SafetensorsTensor* tensor;
    std::filesystem::path file;
  };
  /// By name in the files.
  const std::map<std::string, Found>& tensors() const { return tensors_; }
  /// The one file, or the index.
  const std::filesystem::path& path() const { return path_; }

 private:
  void open_shards();
  void add(SafetensorsReader file);

  std::filesystem::path path_;
  std::vector<SafetensorsReader> files_;  // moves of them keep their tensors in place
  std::map<std::string, Found> tensors_;
};

}  // namespace trireme

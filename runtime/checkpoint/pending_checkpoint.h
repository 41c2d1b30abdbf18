// A checkpoint being written, until it is renamed to its final name (see [Note: whole checkpoints]).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "runtime/checkpoint/manifest.h"

namespace trireme {

/// Created by CheckpointStore::begin(). Move-only; removed with its files unless commit() succeeded.
class PendingCheckpoint {
 public:
  PendingCheckpoint(PendingCheckpoint&& other) noexcept;
  PendingCheckpoint& operator=(PendingCheckpoint&&) = delete;
  ~PendingCheckpoint();

  std::int64_t step() const { return step_; }
  /// The folder for the files; other processes may write into it.
  const std::filesystem::path& folder() const { return temporary_; }
  /// Supplies size and checksum of a file in folder(), so that commit() does not read it.
  void add_file(CheckpointFile file) { files_.push_back(std::move(file)); }

  /// Lists all files of folder() in the manifest, together with `content`, and renames the folder to its
  /// final name, which is returned. Call when all writers have finished. Throws Error(kRuntime) for disk
  /// failures, and Error(kInvalidInput) when a file differs from its add_file().
  std::filesystem::path commit(nlohmann::json content);

 private:
  friend class CheckpointStore;
  PendingCheckpoint(std::filesystem::path root, std::int64_t step);
  std::vector<CheckpointFile> describe_files() const;

  std::filesystem::path root_, temporary_;
  std::int64_t step_;
  std::vector<CheckpointFile> files_;
};

}  // namespace trireme

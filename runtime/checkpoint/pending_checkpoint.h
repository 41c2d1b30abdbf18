// A checkpoint being written, and how it comes to its place (see [Note: whole checkpoints]).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "runtime/checkpoint/manifest.h"

namespace trireme {

/// Made by CheckpointStore::begin(). Move-only; removed with its files unless commit() succeeded.
class PendingCheckpoint {
 public:
  PendingCheckpoint(PendingCheckpoint&& other) noexcept;
  PendingCheckpoint& operator=(PendingCheckpoint&&) = delete;
  ~PendingCheckpoint();

  std::int64_t step() const { return step_; }
  /// The folder for the files; other processes may write into it, too.
  const std::filesystem::path& folder() const { return temporary_; }
  /// Spares commit() the reading of a file that was written to folder().
  void add_file(CheckpointFile file) { files_.push_back(std::move(file)); }

  /// Lists all files of folder() in the manifest, together with `content`, and puts the checkpoint in its
  /// place. Call when all writers have finished. Returns that place. Throws Error(kRuntime) when the disk
  /// refuses, Error(kInvalidInput) when a file is not as add_file() said.
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

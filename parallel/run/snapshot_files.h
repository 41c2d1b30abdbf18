// The files of a checkpoint as ranks write them together, each its piece of a snapshot: from any thread, as
// nothing here communicates. They have the bytes of those that save_state() writes.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "parallel/run/saved_tensors.h"
#include "runtime/checkpoint/safetensors_layout.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "runtime/checkpoint/shard_file.h"

namespace trireme {

class SnapshotFiles {
 public:
  /// Of an engine with EngineOptions::snapshots, which outlives this.
  explicit SnapshotFiles(const Engine& engine);

  /// Remembers what the snapshot that was taken last has, so that write() notices bits that flip in it. Takes
  /// about as long as the snapshot did.
  void note();

  // In this order, in a folder that all ranks see:
  /// Makes the files, without data. One rank, before any of them writes.
  void make(const std::filesystem::path& folder) const;
  /// Writes and syncs what this rank has of the snapshot that was taken last; ends early, with files that are
  /// not whole, once `cancelled`. Throws Error(kRuntime) naming the file, or the group of parameters whose
  /// copy is not what was noted.
  void write(const std::filesystem::path& folder, const std::atomic<bool>& cancelled) const;
  /// Reads the files. One rank, when all have written.
  std::vector<CheckpointFile> describe(const std::filesystem::path& folder) const;

  // In place of a folder that all ranks see, for a shard of this rank's own
  // (runtime/checkpoint/shard_file.h):
  std::vector<ShardHeader::File> sizes() const;
  /// Those of all ranks fill the files. Of the snapshot that was taken last, until the next one is taken.
  std::vector<ShardPiece> pieces() const;
  /// Throws Error(kRuntime) where the snapshot is not what note() noted; nothing where it was not called.
  void check_noted() const;

 private:
  struct File {
    std::string name;
    std::vector<CheckpointTensor> tensors;
    SafetensorsLayout layout;
  };

  std::vector<std::uint64_t> hashes() const;  // by place in pieces_
  /// visit(tensor of the file, first element of it, values) for all that this rank has.
  template <class Visit>
  void for_each_run(const File& file, const Visit& visit) const;

  const Engine& engine_;
  const StateSnapshot& snapshot_;
  std::vector<File> files_;
  std::vector<std::pair<int, int>> pieces_;  // of the snapshot: group and state, each once
  std::vector<std::uint64_t> noted_;         // empty: nothing was
};

}  // namespace trireme

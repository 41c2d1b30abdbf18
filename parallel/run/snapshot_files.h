// The files of a checkpoint, written in parallel: each rank writes its piece of a snapshot. Nothing here
// communicates, so any thread may call it. The files have the same bytes as the ones that save_state()
// writes.
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
  /// `engine` has EngineOptions::snapshots and outlives this.
  explicit SnapshotFiles(const Engine& engine);

  /// Stores checksums of the last snapshot, so that write() detects flipped bits. Takes about as long as the
  /// snapshot.
  void note();

  // In this order, in a folder that all ranks see:
  /// Creates the files, without data. Call it on one rank, before any rank writes.
  void make(const std::filesystem::path& folder) const;
  /// Writes and syncs this rank's piece of the last snapshot. Returns early, with incomplete files, once
  /// `cancelled` is set. Throws Error(kRuntime) naming the file, or the parameter group whose copy changed
  /// since note().
  void write(const std::filesystem::path& folder, const std::atomic<bool>& cancelled) const;
  /// Reads the files. Call it on one rank, after all have written.
  std::vector<CheckpointFile> describe(const std::filesystem::path& folder) const;

  // Without a folder that all ranks see: a shard file per rank (runtime/checkpoint/shard_file.h):
  std::vector<ShardHeader::File> sizes() const;
  /// This rank's pieces; all ranks' pieces together fill the files. They refer to the last snapshot and are
  /// valid until the next one.
  std::vector<ShardPiece> pieces() const;
  /// Throws Error(kRuntime) if the snapshot changed since note(). Does nothing if note() was not called.
  void check_noted() const;

 private:
  struct File {
    std::string name;
    std::vector<CheckpointTensor> tensors;
    SafetensorsLayout layout;
  };

  std::vector<std::uint64_t> hashes() const;  // by index in pieces_
  /// Calls visit(tensor of the file, its first element, values) for everything that this rank has.
  template <class Visit>
  void for_each_run(const File& file, const Visit& visit) const;

  const Engine& engine_;
  const StateSnapshot& snapshot_;
  std::vector<File> files_;
  std::vector<std::pair<int, int>> pieces_;  // of the snapshot: group and state, each once
  std::vector<std::uint64_t> noted_;         // empty: note() was not called
};

}  // namespace trireme

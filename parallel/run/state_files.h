// The files of a checkpoint: every rank writes its pieces of the state ([Note: pieces of state]) into them,
// all at once. Nothing here communicates. With State::kSnapshot any thread may call it.
#pragma once

#include <atomic>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/run/saved_tensors.h"
#include "parallel/run/state_pieces.h"
#include "runtime/checkpoint/safetensors_layout.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "runtime/checkpoint/shard_file.h"

namespace trireme {

class StateFiles {
 public:
  /// The state that is written.
  enum class State : std::uint8_t {
    kNow,       // the engine's, which must not change meanwhile; call it from the engine's thread
    kSnapshot,  // the last snapshot; requires EngineOptions::snapshots
  };

  /// `engine` outlives this.
  explicit StateFiles(const Engine& engine);

  /// Stores checksums of the last snapshot, so that write() detects flipped bits. Takes about as long as the
  /// snapshot.
  void note();

  // In this order, in a folder that all ranks see:
  /// Creates the files, without data. Replaces existing files. Call it on one rank, before any rank writes.
  void make(const std::filesystem::path& folder) const;
  /// Writes and syncs this rank's pieces. Returns early, with incomplete files, once `cancelled` is set.
  /// Throws Error(kRuntime) naming the file, or the parameter group whose copy changed since note().
  void write(const std::filesystem::path& folder, State state, const std::atomic<bool>& cancelled) const;
  /// Reads this rank's share of the files, and returns its hashes. Call it after all ranks have written.
  std::vector<std::uint64_t> hash(const std::filesystem::path& folder) const;
  /// Describes the files. `hashes`: the results of hash() of all ranks, one after another.
  std::vector<CheckpointFile> describe(std::span<const std::uint64_t> hashes) const;

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
  /// A piece of the state: on the host, or to be copied from the device, or to be read from codes.
  struct Source {
    std::int64_t first = 0, count = 0;
    std::span<const float> host = {};
    Tensor device = {};
    const QuantizedGroup* codes = nullptr;
  };

  const StateSnapshot& snapshot() const;
  Source source_of(const CheckpointTensor& tensor, const SavedPart& part, State state) const;
  std::vector<std::uint64_t> hashes_of_snapshot() const;  // by index in pieces_
  /// Calls visit(piece) for everything that this rank has of a file. On a device with separate memory the
  /// bytes of kNow are valid until `visit` returns.
  template <class Visit>
  void for_each_piece(std::size_t file, State state, const Visit& visit) const;

  const Engine& engine_;
  const StatePieces now_;
  std::vector<File> files_;
  std::vector<std::pair<int, int>> pieces_;  // group and state, each once
  std::vector<std::uint64_t> noted_;         // empty: note() was not called
};

}  // namespace trireme

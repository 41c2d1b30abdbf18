// checkpoint.partner: copies a checkpoint to the memory of hosts while training continues ([Note: partner
// copies]).
//
// [Note: progress of a copy] A thread of each rank reserves space for its shard and for the shards that it
// will receive, and writes its own shard from the snapshot. When all ranks have written, they send the shards
// in chunks. In each step's exchange the main thread of a rank posts one chunk and waits for the previous
// one; no other thread communicates. After the last chunk the rank's thread compares checksums and renames
// the files. When all ranks have renamed theirs, older copies are removed. So a complete copy exists at any
// time, and a host keeps its part of the old copy until the new copy is complete. A failure, most often full
// memory, discards only this copy and causes a warning.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/host/progress_work.h"
#include "launcher/partner/partner_folder.h"
#include "launcher/partner/partner_places.h"
#include "launcher/state/run_state.h"
#include "parallel/run/state_files.h"

namespace trireme {

/// The ranks that keep copies for each other.
struct PartnerRing {
  std::shared_ptr<Communicator> comm;  // of all ranks, over host memory; used by nothing else
  HostMap hosts;
  PartnerFolder folder;
  std::string run;  // id of the run that owns the copies

  /// True if this rank manages its host's folder.
  bool is_first_of_host() const;
};

class PartnerCopy {
 public:
  /// Progress of this rank.
  enum class Progress : std::int32_t {
    kNone,      // no copy is active
    kWriting,   // writing its own shard
    kReady,     // ready to send and receive
    kSending,   // sending and receiving
    kChecking,  // verifying received shards
    kInPlace,   // all its files are complete
    kClearing,  // removing older copies
    kCleared,
    kFailed,
  };
  struct Copied {
    std::int64_t step = 0;
    std::int64_t bytes = 0;  // of all files of this rank in its host's memory
    double seconds = 0;
  };
  static constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;

  /// Collective. `engine` has snapshots and outlives this.
  PartnerCopy(Engine& engine, PartnerRing ring, std::int64_t chunk_bytes = kChunkBytes);
  /// Discards an active copy.
  ~PartnerCopy() { discard(); }
  PartnerCopy(const PartnerCopy&) = delete;
  PartnerCopy& operator=(const PartnerCopy&) = delete;

  bool is_active() const { return header_.step >= 0; }
  /// Copies the snapshot that was just taken. The next snapshot must wait until this rank is at kReady, or
  /// the copy has finished. No other copy may be active. Only rank 0 reads the arguments. Collective.
  void start(const RunState& state, const std::optional<std::filesystem::path>& tokenizer_model);
  Progress progress() const { return work_.progress(); }
  /// Continues the copy as far as `ranks` permits: the progress of every rank, equal on all ranks. If a rank
  /// failed, the call is collective and logs a warning.
  std::optional<Copied> advance(std::span<const Progress> ranks);
  /// Waits until the copy is complete. Returns null if it failed or none is active. Collective.
  std::optional<Copied> finish();
  /// Cancels the active copy and removes its files.
  void discard() noexcept;

 private:
  struct Incoming {
    ShardHeader header;
    std::int64_t bytes = 0;
    Tensor memory;  // memory of its file
  };

  void prepare(const RunState& state, const std::optional<std::filesystem::path>& tokenizer_model);
  void write();
  void send_next();
  void put_in_place();
  void give_up();
  void clear();
  Copied copied() const;

  Engine& engine_;
  const PartnerRing ring_;
  const PartnerPlaces places_;
  const std::int64_t chunk_bytes_;
  const std::string mark_;  // unique to rank 0's process
  StateFiles files_;
  std::int64_t num_saves_ = 0;
  bool has_warned_ = false;  // about the last copy

  // The active copy:
  ShardHeader header_{.step = -1};
  std::string tokenizer_;  // content of its file
  std::optional<ShardWriter> writer_;
  Tensor own_;  // memory of this rank's file
  std::vector<Incoming> incoming_;
  std::int64_t num_chunks_ = 0, next_chunk_ = 0;
  std::vector<Work> posted_;
  std::chrono::steady_clock::time_point began_;

  ProgressWork<Progress> work_;
};

}  // namespace trireme

// checkpoint.partner: copies a checkpoint to the memory of hosts while training continues ([Note: partner
// copies]).
//
// [Note: progress of a copy] A thread of each rank reserves space for its shard and for the shards it will
// receive, and writes its own shard from the snapshot. Once all ranks have done that, the shards are sent in
// chunks. In the exchange of each step one chunk is posted and the previous one awaited, by the rank's main
// thread, because no other thread communicates. Then the thread compares checksums and renames the files.
// Once all ranks have done that, older copies are removed. So there is always a whole copy, and no host loses
// a part before it has the new one. A failure, most often full memory, only costs this copy and causes a
// warning.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/partner/partner_folder.h"
#include "launcher/partner/partner_places.h"
#include "launcher/train/rank_work.h"
#include "launcher/train/run_state.h"
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
  /// the copy has finished. No other copy may be active. `state` counts on rank 0 only. Collective.
  void start(const RunState& state, const std::optional<std::filesystem::path>& tokenizer_model);
  Progress progress() const { return work_.progress(); }
  /// Continues the copy, if the progress of all ranks allows. `ranks` is the same on every rank. Collective
  /// if a rank failed, which causes a warning.
  std::optional<Copied> advance(std::span<const Progress> ranks);
  /// Completes the copy, or fails; null if none is active. Collective.
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
  const std::string mark_;  // of rank 0's process
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

  RankWork<Progress> work_;
};

}  // namespace trireme

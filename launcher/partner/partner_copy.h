// checkpoint.partner: a checkpoint in the memory of hosts, made while training goes on ([Note: partner
// copies]).
//
// [Note: progress of a copy] A thread of each rank reserves room for its shard and for those that it gets,
// and writes its own from the snapshot. Once all ranks have done that, the shards travel in chunks: one is
// posted and the one before waited for in the exchange of each step, by the rank's own thread, as no other
// communicates. Then the thread compares checksums and gives the files their names; once all have, the copies
// before are removed. So at any moment there is a whole copy, and no host is without a part of it that it
// had. What fails, a memory that is full above all, costs this copy alone, with a warning.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "launcher/partner/partner_folder.h"
#include "launcher/partner/partner_places.h"
#include "launcher/train/run_state.h"
#include "parallel/run/snapshot_files.h"

namespace trireme {

/// The ranks that keep copies for each other.
struct PartnerRing {
  std::shared_ptr<Communicator> comm;  // of all ranks, over host memory; nobody else's
  HostMap hosts;
  PartnerFolder folder;
  std::string run;  // whose copies these are

  /// Whether this rank is the one that looks after its host's folder.
  bool is_first_of_host() const;
};

class PartnerCopy {
 public:
  /// Of this rank.
  enum class Progress : std::int32_t {
    kNone,      // nothing is under way
    kWriting,   // its own shard
    kReady,     // to send and to receive
    kSending,   // or receiving
    kChecking,  // what it got
    kInPlace,   // all that it has
    kClearing,  // what is older
    kCleared,
    kFailed,
  };
  struct Copied {
    std::int64_t step = 0;
    std::int64_t bytes = 0;  // of all that this rank has in its host's memory
    double seconds = 0;
  };
  static constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;

  /// Collective. The engine has snapshots, and outlives this.
  PartnerCopy(Engine& engine, PartnerRing ring, std::int64_t chunk_bytes = kChunkBytes);
  /// What is under way is given up.
  ~PartnerCopy() { discard(); }
  PartnerCopy(const PartnerCopy&) = delete;
  PartnerCopy& operator=(const PartnerCopy&) = delete;

  bool is_active() const { return header_.step >= 0; }
  /// Begins a copy of the snapshot that was just taken, which is not to be taken again before this has
  /// advanced to kReady on this rank, or finished. Nothing may be under way. Rank 0 gives what is noted.
  /// Collective.
  void start(const RunState& state, const std::optional<std::filesystem::path>& tokenizer_model);
  Progress progress() const { return progress_; }
  /// With the progress of all ranks, the same on each: takes the next step, if there is one. Collective where
  /// one has failed, which is warned of.
  std::optional<Copied> advance(std::span<const Progress> ranks);
  /// Goes on until it is done or has failed; nothing where none is under way. Collective.
  std::optional<Copied> finish();
  /// Gives up what is under way, and removes it.
  void discard() noexcept;

 private:
  struct Incoming {
    ShardHeader header;
    std::int64_t bytes = 0;
    Tensor memory;  // of its file
  };

  void run(Progress then, const std::function<void()>& work);
  void join();
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
  SnapshotFiles files_;
  std::int64_t num_saves_ = 0;
  bool has_warned_ = false;  // of the last copy

  // Of the copy that is under way:
  ShardHeader header_{.step = -1};
  std::string tokenizer_;  // the bytes of its file
  std::optional<ShardWriter> writer_;
  Tensor own_;  // memory of this rank's file
  std::vector<Incoming> incoming_;
  std::int64_t num_chunks_ = 0, next_chunk_ = 0;
  std::vector<Work> posted_;
  std::chrono::steady_clock::time_point began_;

  std::atomic<Progress> progress_ = Progress::kNone;
  std::exception_ptr error_;  // of the thread, once it has ended
  std::thread thread_;
};

}  // namespace trireme

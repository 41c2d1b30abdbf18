// Assembles a checkpoint from the memory of hosts ([Note: partner copies]). Each host receives the shards
// that it lacks from a host that has them, and then holds all files of the checkpoint for the usual loader.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/partner/partner_copy.h"
#include "runtime/checkpoint/checkpoint_store.h"

namespace trireme {

class PartnerRestore {
 public:
  struct Found {
    Checkpoint checkpoint;    // its folder is on this host and has no manifest file
    std::string run;          // the owning run's id
    std::string description;  // where it came from
  };
  /// Returns why a checkpoint with this run id and manifest is refused; empty: accepted. Must return the same
  /// on all ranks.
  using Refusal = std::function<std::string(const std::string& run, const Checkpoint& checkpoint)>;

  /// Collects what all hosts have. Collective.
  PartnerRestore(PartnerRing ring, const Refusal& refusal);
  ~PartnerRestore() { clear(); }
  PartnerRestore(const PartnerRestore&) = delete;
  PartnerRestore& operator=(const PartnerRestore&) = delete;

  /// Assembles the newest whole checkpoint of `least_step` or later; null if there is none. Reports damaged
  /// shards, and uses other copies of them or older checkpoints. First removes all other shards, to free
  /// memory. Collective.
  std::optional<Found> bring(std::int64_t least_step);
  /// Step of the newest checkpoint, whole or not; -1: none.
  std::int64_t newest_step() const;
  /// Why a checkpoint that hosts have, or had, was not assembled; empty: there was none.
  const std::string& failure() const { return failure_; }
  /// Removes the files that bring() made on this host. Call when all ranks have loaded them.
  void clear() noexcept;

 private:
  /// A checkpoint, and which hosts have which shards.
  struct Saved {
    std::string run;
    ShardHeader header;                     // rank 0's
    std::vector<std::vector<int>> holders;  // hosts, by shard
    std::vector<std::int64_t> bytes;        // size of each shard
    bool is_tried = false;
  };

  void gather();
  void refuse(const Refusal& refusal);
  bool is_whole(const Saved& saved) const;
  void verify(const std::string& save);
  bool assemble(const std::string& save);
  void make_files(const Saved& saved, const std::string& save);
  void copy_shard(const Saved& saved, const ShardReader& shard);
  void transfer(const Saved& saved, const std::string& save);
  void drop_received() noexcept;
  bool local_is_missing(const Saved& saved, int shard) const;
  /// The rank of `host` that reads and writes `shard` there.
  int handler(int host, int shard) const;
  const PartnerFolder::Shard* local(const std::string& save, int rank) const;
  std::string describe(const Saved& saved) const;

  const PartnerRing ring_;
  const int host_;
  std::vector<std::vector<int>> ranks_;       // by host
  std::vector<std::string> names_;            // by host
  std::vector<PartnerFolder::Shard> shards_;  // of this host
  std::map<std::string, Saved> saved_;        // by save
  std::filesystem::path folder_;              // the assembled folder; empty: none
  std::shared_ptr<ReservedFile> received_;    // space for one shard from another host
  std::uint64_t copied_bytes_ = 0;            // by this rank
  std::string failure_;
};

}  // namespace trireme

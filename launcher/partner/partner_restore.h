// A checkpoint brought together from the memory of hosts ([Note: partner copies]): each host gets what it
// lacks from one that has it, and has all files of the checkpoint then, for the usual loader.
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
    Checkpoint checkpoint;    // its folder is this host's, and has no manifest file
    std::string run;          // whose it is
    std::string description;  // from where it came
  };
  /// Why a checkpoint of this run, with this content of its manifest, is not wanted; empty: it is. The same
  /// on all ranks.
  using Refusal = std::function<std::string(const std::string& run, const Checkpoint& checkpoint)>;

  /// Looks at what all hosts have. Collective.
  PartnerRestore(PartnerRing ring, const Refusal& refusal);
  ~PartnerRestore() { clear(); }
  PartnerRestore(const PartnerRestore&) = delete;
  PartnerRestore& operator=(const PartnerRestore&) = delete;

  /// Brings the newest one together that is whole, of `least_step` or a later one; nothing where there is
  /// none. Damaged shards are named, and other copies of them, or older checkpoints, taken in their place.
  /// What else hosts have is removed first: it needs the room. Collective.
  std::optional<Found> bring(std::int64_t least_step);
  /// Of the newest one, whole or not; -1: there is none.
  std::int64_t newest_step() const;
  /// Why one that hosts have, or had, was not brought together; empty: there was no such thing.
  const std::string& failure() const { return failure_; }
  /// Removes what bring() has made on this host, when all ranks have loaded it.
  void clear() noexcept;

 private:
  /// One checkpoint, as far as hosts have it.
  struct Saved {
    std::string run;
    ShardHeader header;                     // rank 0's
    std::vector<std::vector<int>> holders;  // hosts, by rank
    std::vector<std::int64_t> bytes;        // of shards, by rank
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
  /// The rank of a host that reads and writes a shard there.
  int handler(int host, int shard) const;
  const PartnerFolder::Shard* local(const std::string& save, int rank) const;
  std::string describe(const Saved& saved) const;

  const PartnerRing ring_;
  const int host_;
  std::vector<std::vector<int>> ranks_;       // by host
  std::vector<std::string> names_;            // of hosts
  std::vector<PartnerFolder::Shard> shards_;  // of this host
  std::map<std::string, Saved> saved_;        // by save
  std::filesystem::path folder_;              // what is made; empty: nothing is
  std::shared_ptr<ReservedFile> received_;    // room for one shard that comes from another host
  std::uint64_t copied_bytes_ = 0;            // by this rank
  std::string failure_;
};

}  // namespace trireme

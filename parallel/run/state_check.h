// Finds state that changed other than by an update: bits that flipped in memory or on a wire.
//
// [Note: state checks] Data ranks have the same bits of whatever more than one of them holds, so that a
// checksum of it tells who differs. What one of them alone holds carries a checksum from its update to the
// next one:
//
//     what                                          looked at
//     masters and optimizer state on all ranks      compared when now() is asked for: a flip there stays
//     the same as shards (ZeRO), or of one rank,
//     with ZeRO-3's pieces of working copies        own checksum, in each step before the update
//     working copies on all ranks, 16 bits or ZeRO  compared in each step: the next update makes new ones
//
// In host memory messages are summed up, too: [Note: message sums]. Not covered: what lives for less than a
// step and is not on its way (activations, gradients before their sum, with ZeRO also after it), and running
// statistics between checkpoints. Nothing here communicates: a rank's StateCheck goes to the others as a
// plain value. Memory that is not the host's is copied to be looked at, so nothing is done there in each
// step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "parallel/run/rank_parts.h"

namespace trireme {

/// What one rank can say of its state. Checksums are 0 where nothing was looked at, on all ranks alike.
struct StateCheck {
  std::uint64_t used = 0;           // of the working copies, as a step used them
  std::uint64_t kept = 0;           // of masters and optimizer state that all data ranks have
  std::int32_t damaged_group = -1;  // whose own checksum is not that of its last update; -1: none
  std::uint64_t messages = 0;       // sent less received: [Note: message sums], 0 in all over all ranks
};

/// The findings of two looks at one rank.
StateCheck merge(const StateCheck& first, const StateCheck& second);

struct Corruption {
  std::vector<int> ranks;  // ascending
  bool is_certain = true;  // false: one or several of `ranks`, which differ without a majority
  int group = -1;          // of the first rank's own checksum; -1: found by comparison
};

/// The ranks whose state is not what it should be, from the checks of all ranks, in their order. A rank's own
/// checksum goes before a comparison, and among ranks that are compared the majority is right.
std::optional<Corruption> find_corruption(const Mesh& mesh, std::span<const StateCheck> checks);

class StateVerifier {
 public:
  /// Throws Error(kUnsupported) where shards lie in memory that is not the host's.
  explicit StateVerifier(const RankParts& parts);

  /// True if of_last_step() has something to say.
  bool looks_in_each_step() const { return carries_checksums_ || compares_working_; }

  /// After the last use of the parameters in a step, before the first update. Waits for gathers in flight.
  void before_updates();
  /// Around the update of a group that this rank owns, while it is in the processor's caches.
  void before_update(int group);
  void after_update(int group);
  /// The state was written from outside.
  void forget() { std::ranges::fill(noted_, std::nullopt); }

  const StateCheck& of_last_step() const { return last_; }
  /// StateCheck::messages between two steps, of all so far. Waits for gathers in flight.
  std::uint64_t messages() const;
  /// Between two steps. Waits.
  StateCheck now() const;

 private:
  std::uint64_t checksum_of(const Tensor& tensor) const;
  std::uint64_t checksum_of_owned(int group) const;
  bool is_damaged(int group) const;

  const RankParts& parts_;
  const bool carries_checksums_, compares_working_;
  std::vector<std::optional<std::uint64_t>> noted_;  // by group, of its last update
  StateCheck last_;
};

}  // namespace trireme

// Detects state that changed without an update: bits that flipped in memory or on a link.
//
// [Note: state checks] State that several data ranks hold has the same bits on all of them, so comparing
// checksums finds the rank that differs. State that one rank alone holds has a checksum from its update to
// the next one:
//
//     state                                         checked
//     masters and optimizer state on all ranks      compared in now(): a flip persists until then
//     the same as shards (ZeRO), or on one rank,
//     with ZeRO-3's pieces of working copies        own checksum, in each step before the update
//     working copies on all ranks, 16 bits or ZeRO  compared in each step: the next update replaces them
//
// In host memory messages are summed, too: [Note: message sums]. Not covered: data that lives for less than a
// step and is not in transit (activations, gradients before their sum, with ZeRO also after it), and running
// statistics between checkpoints. Nothing here communicates: a rank's StateCheck is sent to the others as a
// plain value. Checking device memory requires a copy, so it is not done in each step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "parallel/run/rank_parts.h"

namespace trireme {

/// The checksums of one rank's state. A checksum is 0 if nothing was checked, on all ranks alike.
struct StateCheck {
  std::uint64_t used = 0;           // of the working copies, as a step used them
  std::uint64_t kept = 0;           // of masters and optimizer state that all data ranks have
  std::int32_t damaged_group = -1;  // group whose checksum changed since its last update; -1: none
  std::uint64_t messages = 0;       // sent minus received: [Note: message sums]; sums to 0 over all ranks
};

/// Merges two checks of one rank.
StateCheck merge(const StateCheck& first, const StateCheck& second);

struct Corruption {
  std::vector<int> ranks;  // ascending
  bool is_certain = true;  // false: one or more of `ranks`, which differ without a majority
  int group = -1;          // found by the first rank's own checksum; -1: found by comparison
};

/// The ranks whose state is corrupted, from the checks of all ranks in order. A rank's own checksum takes
/// precedence over a comparison. In a comparison the majority is right.
std::optional<Corruption> find_corruption(const Mesh& mesh, std::span<const StateCheck> checks);

class StateVerifier {
 public:
  /// Throws Error(kUnsupported) if shards are in device memory.
  explicit StateVerifier(const RankParts& parts);

  /// True if of_last_step() contains checks.
  bool looks_in_each_step() const { return carries_checksums_ || compares_working_; }

  /// Call it after the last use of the parameters in a step, before the first update. Waits for gathers in
  /// flight.
  void before_updates();
  /// Call them around the update of a group that this rank owns, while the group is in the processor's
  /// caches.
  void before_update(int group);
  void after_update(int group);
  /// Call it after a caller wrote the state.
  void forget() { std::ranges::fill(noted_, std::nullopt); }

  const StateCheck& of_last_step() const { return last_; }
  /// StateCheck::messages of all steps so far. Call it between two steps. Waits for gathers in flight.
  std::uint64_t messages() const;
  /// Checks the state between two steps. Waits for gathers in flight.
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

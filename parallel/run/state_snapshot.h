// A copy of what a checkpoint has of a rank's state, so that training can go on while it is written.
//
// [Note: snapshots] Whatever the ZeRO stage, each data rank copies its shard alone, as ZeRO-1 would cut it:
// so a copy takes 1/N of the memory and of the time, and N ranks write at once. The memory is reserved with
// the engine and is a part of its prediction, as MemoryCategory::kHost; next to a device with memory of its
// own it is the host's, which is not predicted. A rank whose shard another one writes (parameters that all
// tensor places have) reserves it nevertheless, so that ranks of one stage need the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/run/rank_parts.h"

namespace trireme {

class StateSnapshot {
 public:
  /// Reserves the memory. `parts` outlives this.
  explicit StateSnapshot(const RankParts& parts);

  /// Copies, between two steps; waits for those before. What was taken before is gone.
  void take();

  struct Piece {
    std::int64_t first = 0;         // element of the group
    std::span<const float> values;  // empty: another rank writes them
  };
  /// Of what was taken, this rank's piece of a group: `state` as in CheckpointTensor.
  Piece piece(int group, int state) const;
  /// Running statistics of this rank's stage; empty: another rank writes them.
  std::span<const float> statistics() const;

  /// That take() fills.
  std::int64_t size_bytes() const;

 private:
  /// Memory of the host, counted where the engine's is.
  struct Room {
    Tensor counted = {};
    std::vector<float> uncounted = {};
    float* data() { return counted.defined() ? static_cast<float*>(counted.data()) : uncounted.data(); }
    const float* data() const { return const_cast<Room*>(this)->data(); }
  };
  struct Copy {
    Tensor from;
    float* to;
  };
  /// The master, states of the optimizer and averages that a group has, in this order.
  std::vector<int> states_of(int group) const;
  Room reserve(std::int64_t num_elems) const;
  Piece place_of_piece(int group) const;
  bool writes(int group) const;
  bool writes_statistics() const;
  void copy_on_host(const std::vector<Copy>& copies) const;

  const RankParts& parts_;
  const Sharding sharding_;               // of the copies, not of the state
  std::vector<std::vector<Room>> rooms_;  // [group][index of states_of()]
  Room statistics_;
};

}  // namespace trireme

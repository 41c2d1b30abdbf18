// A copy of a rank's state for a checkpoint, so that training can continue while it is written.
//
// [Note: snapshots] Each rank copies only the pieces that it writes ([Note: pieces of state]). The memory is
// reserved with the engine and is part of its predicted memory, as MemoryCategory::kHost. For a device with
// separate memory it is host memory, which is not predicted. A rank whose shard another rank writes reserves
// the memory nevertheless, so that ranks of one stage need the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/run/rank_parts.h"
#include "parallel/run/state_pieces.h"

namespace trireme {

class StateSnapshot {
 public:
  /// Reserves the memory. `parts` outlives this.
  explicit StateSnapshot(const RankParts& parts);

  /// Copies the state between two steps, and waits for earlier ones. Overwrites the previous snapshot.
  void take();

  struct Piece {
    std::int64_t first = 0;         // element of the group
    std::span<const float> values;  // empty: another rank writes them
  };
  /// This rank's piece of a group in the last snapshot. `state` as in CheckpointTensor.
  Piece piece(int group, int state) const;
  /// Running statistics of this rank's stage; empty: another rank writes them.
  std::span<const float> statistics() const;

  /// The size of what take() copies.
  std::int64_t size_bytes() const;

 private:
  /// Host memory, counted by the allocator if the engine's memory is the host's.
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
  Room reserve(std::int64_t num_elems) const;
  void copy_on_host(const std::vector<Copy>& copies) const;

  const RankParts& parts_;
  const StatePieces pieces_;
  std::vector<std::vector<Room>> rooms_;  // [group][index of StatePieces::states_of()]
  Room statistics_;
};

}  // namespace trireme

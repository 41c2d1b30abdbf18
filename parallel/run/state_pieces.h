// The pieces of the state that a rank writes into a checkpoint. The pieces of all ranks are the whole state,
// each element once.
//
// [Note: pieces of state] At every ZeRO stage each data rank writes its shard of ZeRO-1, so N data ranks
// write at once. Parameters that all tensor ranks have are written by the first one. Running statistics are
// written by the first data and tensor rank of their stage.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/layout/param_store.h"
#include "parallel/layout/statistic_store.h"
#include "parallel/mesh/mesh_groups.h"

namespace trireme {

/// Elements [first, first + count) of a group.
struct ElemRange {
  std::int64_t first = 0, count = 0;
};

struct StatePiece {
  std::int64_t first = 0;  // element of the group
  Tensor values;           // in the engine's memory; undefined: other ranks write the group
};

class StatePieces {
 public:
  /// All arguments outlive this.
  StatePieces(const ParamStore& params, const ModelLayout& layout, const StatisticStore& statistics,
              const MeshGroups& groups)
      : params_(params), layout_(layout), statistics_(statistics), groups_(groups) {}

  /// The states of a group, as in CheckpointTensor: master, optimizer states and averages, in this order.
  std::vector<int> states_of(int group) const;
  /// The elements of this rank's pieces of a group, without padding; empty: other ranks write the group.
  ElemRange range_of(int group) const;
  bool writes_statistics() const;

  // Not while a step runs:
  /// This rank's piece of a state of a group.
  StatePiece piece(int group, int state) const;
  /// Running statistics of this rank's stage; undefined: another rank writes them.
  Tensor statistics() const { return writes_statistics() ? statistics_.values() : Tensor(); }

 private:
  const ParamStore& params_;
  const ModelLayout& layout_;
  const StatisticStore& statistics_;
  const MeshGroups& groups_;
};

}  // namespace trireme

// The pieces of the state that a rank writes into a checkpoint. The pieces of all ranks are the whole state,
// each element once.
//
// [Note: pieces of state] At every ZeRO stage each data rank writes its shard of ZeRO-1, so N data ranks
// write at once. Parameters that all tensor ranks have are written by the first one. Running statistics are
// written by the first data and tensor rank of their stage, and so are the scales of quantized groups. The
// numbers of such a group are written by all data ranks, each from its copy of the codes.
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
  std::int64_t first = 0, count = 0;      // elements of the group; 0: other ranks write them
  Tensor values;                          // in the engine's memory
  const QuantizedGroup* codes = nullptr;  // instead of values, for a quantized group
};

class StatePieces {
 public:
  /// All arguments outlive this.
  StatePieces(const ParamStore& params, const ModelLayout& layout, const StatisticStore& statistics,
              const MeshGroups& groups)
      : params_(params), layout_(layout), statistics_(statistics), groups_(groups) {}

  /// The states of a group, as in CheckpointTensor: master, optimizer states, averages and scales of codes,
  /// in this order.
  std::vector<int> states_of(int group) const;
  /// The elements of this rank's piece of a state, without padding; empty: other ranks write the group.
  ElemRange range_of(int group, int state) const;
  bool writes_statistics() const;

  // Not while a step runs:
  /// This rank's piece of a state of a group.
  StatePiece piece(int group, int state) const;
  /// Running statistics of this rank's stage; none: another rank writes them.
  StatePiece statistics_piece() const;

 private:
  const ParamStore& params_;
  const ModelLayout& layout_;
  const StatisticStore& statistics_;
  const MeshGroups& groups_;
};

}  // namespace trireme

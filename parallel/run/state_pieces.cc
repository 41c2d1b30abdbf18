#include "parallel/run/state_pieces.h"

#include <algorithm>

#include "parallel/run/saved_tensors.h"

namespace trireme {

std::vector<int> StatePieces::states_of(int group) const {
  std::vector<int> states = {CheckpointTensor::kMaster};
  for (int s = 0; s < static_cast<int>(params_.state_names(group).size()); ++s) states.push_back(s);
  const bool is_frozen = layout_.groups[static_cast<std::size_t>(group)].frozen;
  if (params_.has_averages() && !is_frozen) states.push_back(CheckpointTensor::kAverage);
  return states;
}

ElemRange StatePieces::range_of(int group) const {
  const ParamGroup& whole = layout_.groups[static_cast<std::size_t>(group)];
  const bool is_written_elsewhere = whole.chunk < 0 && groups_.coord()[Axis::kTensor] > 0;
  if (!params_.owns(group) || is_written_elsewhere) return {};
  const Sharding sharding = params_.axis().sharding();
  const std::int64_t first = std::min(sharding.first(whole.num_elems), whole.num_elems);
  return {.first = first, .count = std::min(sharding.piece(whole.num_elems), whole.num_elems - first)};
}

StatePiece StatePieces::piece(int group, int state) const {
  const auto [first, count] = range_of(group);
  if (count == 0) return {};
  return {.first = first,
          .values = owned_of(params_, group, state).slice(first - params_.first_owned(group), {count})};
}

bool StatePieces::writes_statistics() const {
  const Coord here = groups_.coord();
  return statistics_.values().defined() && here[Axis::kData] == 0 && here[Axis::kTensor] == 0;
}

}  // namespace trireme

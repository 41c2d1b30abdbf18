#include "parallel/run/state_pieces.h"

#include <algorithm>

#include "parallel/run/saved_tensors.h"

namespace trireme {

std::vector<int> StatePieces::states_of(int group) const {
  std::vector<int> states = {CheckpointTensor::kMaster};
  for (int s = 0; s < static_cast<int>(params_.state_names(group).size()); ++s) states.push_back(s);
  const bool is_frozen = layout_.groups[static_cast<std::size_t>(group)].frozen;
  if (params_.has_averages() && !is_frozen) states.push_back(CheckpointTensor::kAverage);
  if (layout_.groups[static_cast<std::size_t>(group)].quantized)
    states.push_back(CheckpointTensor::kNf4Scales);
  return states;
}

ElemRange StatePieces::range_of(int group, int state) const {
  const ParamGroup& whole = layout_.groups[static_cast<std::size_t>(group)];
  const bool is_written_elsewhere = whole.chunk < 0 && groups_.coord()[Axis::kTensor] > 0;
  if (!params_.owns(group) || is_written_elsewhere) return {};
  if (state == CheckpointTensor::kNf4Scales) {
    return {.count = groups_.coord()[Axis::kData] == 0 ? owned_of(params_, group, state).num_elems() : 0};
  }
  const Sharding sharding = params_.axis().sharding();
  const std::int64_t first = std::min(sharding.first(whole.num_elems), whole.num_elems);
  return {.first = first, .count = std::min(sharding.piece(whole.num_elems), whole.num_elems - first)};
}

StatePiece StatePieces::piece(int group, int state) const {
  const auto [first, count] = range_of(group, state);
  if (count == 0) return {};
  if (is_in_codes(params_, group, state)) {
    return {.first = first, .count = count, .values = {}, .codes = params_.quantized(group)};
  }
  const std::int64_t owned_first = state == CheckpointTensor::kNf4Scales ? 0 : params_.first_owned(group);
  return {.first = first,
          .count = count,
          .values = owned_of(params_, group, state).slice(first - owned_first, {count})};
}

StatePiece StatePieces::statistics_piece() const {
  if (!writes_statistics()) return {};
  return {.count = statistics_.values().num_elems(), .values = statistics_.values()};
}

bool StatePieces::writes_statistics() const {
  const Coord here = groups_.coord();
  return statistics_.values().defined() && here[Axis::kData] == 0 && here[Axis::kTensor] == 0;
}

}  // namespace trireme

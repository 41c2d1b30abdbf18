#include "parallel/run/state_gather.h"

#include <algorithm>
#include <vector>

namespace trireme {

StateGather::StateGather(const Engine& engine)
    : engine_(engine),
      max_elems_(std::ranges::min(engine.communicator().all_gather_value(engine.staging_elems(kMaxElems)))) {}

StateGather::Stretch StateGather::stretch_of_statistic(const CheckpointTensor& tensor, Range range) const {
  Stretch stretch{.owner = {{Axis::kPipeline, tensor.stage}},
                  .num_elems = std::min(range.count(), max_elems_)};
  if (tensor.owned_at >= 0) {
    stretch.owned = engine_.statistics().values().slice(tensor.owned_at + range.first, {stretch.num_elems});
  }
  return stretch;
}

StateGather::Stretch StateGather::stretch_of_group(const CheckpointTensor& tensor, const SavedPart& part,
                                                   Range range) const {
  const ParamStore& params = engine_.parameters();
  const MeshGroups& groups = engine_.groups();
  const ParamGroup& group = engine_.layout().groups[static_cast<std::size_t>(part.group)];
  const std::int64_t piece = params.sharding().piece(group.num_elems);
  const std::int64_t first = part.offset + range.first;
  const auto index = static_cast<int>(first / piece);
  Stretch stretch{
      .owner = {{Axis::kPipeline, engine_.stages().stage_of(owner_unit(engine_.layout(), part.group))},
                {Axis::kData, params.sharding().ranks > 1 ? params.axis().rank_of_piece(index) : 0},
                {Axis::kTensor, place_of(group, groups.mesh.size(Axis::kTensor))}},
      .num_elems = std::min({range.count(), (index + 1) * piece - first, max_elems_})};
  if (groups.coord() == stretch.owner) {
    const Tensor& owned = owned_of(engine_, part.group, tensor.state);
    stretch.owned = owned.slice(first - params.first_owned(part.group), {stretch.num_elems});
  }
  return stretch;
}

Tensor StateGather::bring(const Stretch& stretch) const {
  const MeshGroups& groups = engine_.groups();
  const Coord here = groups.coord();
  Tensor values = stretch.owned;
  const auto spread = [&](Axis axis) {
    if (stretch.owner[axis] == 0) return;
    if (!values.defined()) {
      values = engine_.context().empty({stretch.num_elems}, DType::kFloat32, MemoryCategory::kCommunication);
    }
    groups.along(axis)->broadcast(values, stretch.owner[axis]).wait();
  };
  const auto is_at = [&](Axis axis) { return here[axis] == stretch.owner[axis]; };
  if (is_at(Axis::kPipeline) && is_at(Axis::kTensor)) spread(Axis::kData);
  if (here[Axis::kData] == 0 && is_at(Axis::kTensor)) spread(Axis::kPipeline);
  if (here[Axis::kData] == 0 && here[Axis::kPipeline] == 0) spread(Axis::kTensor);
  return values;
}

void StateGather::read(const CheckpointTensor& tensor, const SavedPart& part, Range range, float* out) const {
  const Context& ctx = engine_.context();
  while (range.first < range.last) {
    const Stretch stretch =
        tensor.is_statistic() ? stretch_of_statistic(tensor, range) : stretch_of_group(tensor, part, range);
    const Tensor values = bring(stretch);
    if (engine_.communicator().rank() == 0) {
      ctx.backend->copy_to_host(ctx.exec, out, values);
      out += stretch.num_elems;
    }
    range.first += stretch.num_elems;
  }
}

}  // namespace trireme

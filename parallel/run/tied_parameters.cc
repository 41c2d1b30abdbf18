#include "parallel/run/tied_parameters.h"

#include <algorithm>

namespace trireme {

TiedParameters::TiedParameters(const RankParts& parts) : parts_(parts) {
  for (const TiedUnits& tie : ties_between_stages(parts.layout, parts.stages)) {
    for (const int bucket : tied_buckets(parts.layout, tie)) {
      const int group = parts.layout.buckets[static_cast<std::size_t>(bucket)].group;
      const int stage = parts.stages.stage_of(tie.user);
      const bool is_first = std::ranges::none_of(
          uses_, [&](const Use& use) { return use.group == group && use.user_stage == stage; });
      uses_.push_back({tie, parts.stages.stage_of(tie.owner), stage, bucket, group, is_first});
    }
  }
}

void TiedParameters::exchange(const Action& action) {
  const bool of_gradient =
      action.kind == ActionKind::kSendTiedGradient || action.kind == ActionKind::kRecvTiedGradient;
  Communicator& comm = *parts_.groups.along(Axis::kPipeline);
  const int mine = parts_.stage(), peer = parts_.groups.mesh.coord(action.peer)[Axis::kPipeline];
  for (const Use& use : uses_) {
    const bool ours = (use.owner_stage == mine && use.user_stage == peer) ||
                      (use.user_stage == mine && use.owner_stage == peer);
    const bool frozen = parts_.layout.groups[static_cast<std::size_t>(use.group)].frozen;
    if (frozen || !ours || action.unit != (of_gradient ? use.units.user : use.units.owner)) continue;
    if (action.kind == ActionKind::kSendTiedGradient) {
      parts_.gradients.send_use(parts_.ctx, use.bucket, comm, peer);
    } else if (action.kind == ActionKind::kRecvTiedGradient) {
      parts_.gradients.receive_use(parts_.ctx, use.bucket, comm, peer);
    } else if (use.is_first && action.kind == ActionKind::kSendTiedParameters) {
      parts_.params.send_working(use.group, comm, peer);
    } else if (use.is_first) {
      parts_.params.receive_working(use.group, comm, peer);
    }
  }
}

void TiedParameters::share() {
  const auto& comm = parts_.groups.along(Axis::kPipeline);  // null if nothing is tied
  for (const Use& use : uses_) {
    if (!use.is_first || use.owner_stage != parts_.stage()) continue;
    parts_.params.send_working(use.group, *comm, use.user_stage);
  }
  for (const Use& use : uses_) {
    if (!use.is_first || use.user_stage != parts_.stage()) continue;
    parts_.params.receive_working(use.group, *comm, use.owner_stage);
    if (parts_.params.gathers_updates()) {
      parts_.params.gather_updated(use.group);
      parts_.params.gather_in_host(use.group);
    }
  }
  parts_.params.settle();
}

}  // namespace trireme

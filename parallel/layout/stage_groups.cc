#include "parallel/layout/stage_groups.h"

#include <algorithm>
#include <tuple>

namespace trireme {

int owner_unit(const ModelLayout& layout, int group) {
  return layout.groups[static_cast<std::size_t>(group)].slots.front().block;
}

std::vector<Holding> holdings_of_stage(const ModelLayout& layout, const StageMap& stages, int stage) {
  std::vector<Holding> holdings(layout.groups.size(), Holding::kNothing);
  for (int unit = 0; unit < stages.num_units(); ++unit) {
    if (stages.stage_of(unit) != stage) continue;
    for (const int group : layout.unit_groups[static_cast<std::size_t>(unit)]) {
      const bool owned = stages.stage_of(owner_unit(layout, group)) == stage;
      holdings[static_cast<std::size_t>(group)] = owned ? Holding::kOwned : Holding::kCopy;
    }
  }
  return holdings;
}

namespace {

template <class Counts>
std::vector<TiedUnits> ties_where(const ModelLayout& layout, const StageMap& stages, const Counts& counts) {
  std::vector<TiedUnits> ties;
  for (const GradBucket& bucket : layout.buckets) {
    if (!counts(layout.groups[static_cast<std::size_t>(bucket.group)])) continue;
    const TiedUnits tie{.owner = owner_unit(layout, bucket.group), .user = bucket.unit};
    if (stages.stage_of(tie.owner) == stages.stage_of(tie.user)) continue;
    if (std::ranges::find(ties, tie) == ties.end()) ties.push_back(tie);
  }
  return ties;
}

}  // namespace

std::vector<TiedUnits> ties_between_stages(const ModelLayout& layout, const StageMap& stages) {
  return ties_where(layout, stages, [](const ParamGroup&) { return true; });
}

std::vector<TiedUnits> trained_ties(const ModelLayout& layout, const StageMap& stages) {
  return ties_where(layout, stages, [](const ParamGroup& group) { return !group.frozen; });
}

std::vector<MessageChannel> channels_between_stages(const StageMap& stages,
                                                    const std::vector<TiedUnits>& ties) {
  std::vector<MessageChannel> channels;
  for (int chunk = 0; chunk + 1 < stages.num_chunks(); ++chunk) {
    const int here = stages.stage_of_chunk(chunk), next = stages.stage_of_chunk(chunk + 1);
    if (here == next) continue;  // a pipeline of one stage
    channels.push_back({.source = here, .destination = next, .tag = kActivationTag});
    channels.push_back({.source = next, .destination = here, .tag = kGradientTag});
  }
  for (const TiedUnits& tie : ties) {
    const int owner = stages.stage_of(tie.owner), user = stages.stage_of(tie.user);
    channels.push_back({.source = user, .destination = owner, .tag = kTiedTag});
    channels.push_back({.source = owner, .destination = user, .tag = kTiedTag});
  }
  std::ranges::sort(channels, {}, [](const MessageChannel& channel) {
    return std::tuple(channel.tag, channel.source % 2, channel.source, channel.destination);
  });
  const auto repeated = std::ranges::unique(channels);
  channels.erase(repeated.begin(), repeated.end());
  return channels;
}

std::vector<int> tied_buckets(const ModelLayout& layout, const TiedUnits& tie) {
  std::vector<int> buckets;
  const std::vector<int>& held = layout.unit_groups[static_cast<std::size_t>(tie.user)];
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    const GradBucket& bucket = layout.buckets[b];
    if (bucket.use == 0 || bucket.unit != tie.user || owner_unit(layout, bucket.group) != tie.owner) continue;
    const bool is_here = std::ranges::find(held, bucket.group) != held.end();  // else on another tensor rank
    if (is_here) buckets.push_back(static_cast<int>(b));
  }
  return buckets;
}

}  // namespace trireme

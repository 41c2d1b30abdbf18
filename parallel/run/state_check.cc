#include "parallel/run/state_check.h"

#include <algorithm>
#include <map>
#include <span>

#include "parallel/comm/checksum.h"
#include "parallel/comm/message_sums.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

bool is_on_host(const RankParts& parts) {
  const DeviceTraits& device = traits(parts.ctx.allocator->device().type);
  return device.host_memory && device.computes;
}

bool is_sharded(const RankParts& parts) {
  return parts.params.sharding().ranks > 1;
}

bool has_working_copies(const RankParts& parts) {
  return parts.ctx.precision.compute_dtype() != DType::kFloat32 || is_sharded(parts);
}

/// Adds the ranks whose value differs from the majority; without a majority, all ranks.
void add_differing(std::span<const int> ranks, std::span<const StateCheck> checks,
                   std::uint64_t StateCheck::*sum, Corruption& found) {
  std::map<std::uint64_t, std::size_t> counts;
  for (const int rank : ranks) ++counts[checks[static_cast<std::size_t>(rank)].*sum];
  if (counts.size() == 1) return;
  const auto most = std::ranges::max_element(
      counts, {}, [](const auto& value_and_count) { return value_and_count.second; });
  const bool is_majority = 2 * most->second > ranks.size();
  if (!is_majority) found.is_certain = false;
  for (const int rank : ranks) {
    if (is_majority && checks[static_cast<std::size_t>(rank)].*sum == most->first) continue;
    found.ranks.push_back(rank);
  }
}

}  // namespace

StateCheck merge(const StateCheck& first, const StateCheck& second) {
  return {.used = first.used != 0 ? first.used : second.used,
          .kept = first.kept != 0 ? first.kept : second.kept,
          .damaged_group = std::max(first.damaged_group, second.damaged_group)};
}

std::optional<Corruption> find_corruption(const Mesh& mesh, std::span<const StateCheck> checks) {
  TRIREME_CHECK(checks.size() == static_cast<std::size_t>(mesh.num_ranks()),
                "{} checks of state, of {} ranks", checks.size(), mesh.num_ranks());
  Corruption found;
  for (std::size_t rank = 0; rank < checks.size(); ++rank) {
    if (checks[rank].damaged_group < 0) continue;
    if (found.ranks.empty()) found.group = checks[rank].damaged_group;
    found.ranks.push_back(static_cast<int>(rank));
  }
  if (!found.ranks.empty()) return found;
  for (const std::vector<int>& ranks : mesh.groups(Axis::kData)) {
    add_differing(ranks, checks, &StateCheck::kept, found);
    add_differing(ranks, checks, &StateCheck::used, found);
  }
  if (found.ranks.empty()) return std::nullopt;
  std::ranges::sort(found.ranks);
  const auto [first, last] = std::ranges::unique(found.ranks);
  found.ranks.erase(first, last);
  return found;
}

StateVerifier::StateVerifier(const RankParts& parts)
    : parts_(parts),
      carries_checksums_(is_on_host(parts) && (is_sharded(parts) || parts.params.axis().size() == 1)),
      compares_working_(is_on_host(parts) && parts.params.axis().size() > 1 &&
                        !parts.params.shards_parameters() && has_working_copies(parts)),
      noted_(parts.layout.groups.size()) {
  const DeviceType device = parts.ctx.allocator->device().type;
  if (is_sharded(parts) && !traits(device).host_memory) {
    throw Error(ErrorCode::kUnsupported,
                "EngineOptions::verify_state with Layout::zero of 1 to 3: shards on {} carry no "
                "checksums, which would be made on the host in each step",
                name(device));
  }
}

std::uint64_t StateVerifier::checksum_of(const Tensor& tensor) const {
  const int num_threads = parts_.ctx.exec.num_threads;
  if (!traits(tensor.device().type).host_memory) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.size_bytes()));
    parts_.ctx.backend->copy_to_host(parts_.ctx.exec, bytes.data(), tensor);
    return checksum(bytes, num_threads);
  }
  return checksum(
      {static_cast<const std::byte*>(tensor.data()), static_cast<std::size_t>(tensor.size_bytes())},
      num_threads);
}

std::uint64_t StateVerifier::checksum_of_owned(int group) const {
  const ParamStore& params = parts_.params;
  if (const QuantizedGroup* codes = params.quantized(group)) {
    const std::uint64_t of_codes =
        combine_checksums(checksum_of(codes->codes()), checksum_of(codes->scale_codes()));
    return combine_checksums(of_codes, checksum_of(codes->scales()));
  }
  std::uint64_t all = checksum_of(params.master(group));
  const Tensor& working = params.working(group);
  const bool is_own_copy = params.shards_parameters() && working.address() != params.master(group).address();
  if (is_own_copy) all = combine_checksums(all, checksum_of(working));
  if (parts_.layout.groups[static_cast<std::size_t>(group)].frozen) return all;
  for (std::size_t s = 0; s < params.state_names(group).size(); ++s) {
    all = combine_checksums(all, checksum_of(params.state(group, static_cast<int>(s))));
  }
  if (params.has_averages()) all = combine_checksums(all, checksum_of(params.average(group)));
  return all;
}

bool StateVerifier::is_damaged(int group) const {
  const auto& noted = noted_[static_cast<std::size_t>(group)];
  return noted && *noted != checksum_of_owned(group);
}

void StateVerifier::before_updates() {
  last_ = {};
  if (compares_working_) parts_.params.settle();
  for (int g = 0; g < static_cast<int>(noted_.size()); ++g) {
    if (compares_working_ && parts_.params.holds(g) && parts_.params.quantized(g) == nullptr)
      last_.used = combine_checksums(last_.used, checksum_of(parts_.params.working(g)));
    if (!parts_.layout.groups[static_cast<std::size_t>(g)].frozen || !parts_.params.owns(g)) continue;
    before_update(g);  // no update changes it, so its checksum stays
    if (!noted_[static_cast<std::size_t>(g)]) after_update(g);
  }
}

void StateVerifier::before_update(int group) {
  if (carries_checksums_ && last_.damaged_group < 0 && is_damaged(group)) last_.damaged_group = group;
}

void StateVerifier::after_update(int group) {
  if (carries_checksums_) noted_[static_cast<std::size_t>(group)] = checksum_of_owned(group);
}

std::uint64_t StateVerifier::messages() const {
  const MessageSums* sums = message_sums(*parts_.groups.world);
  if (sums == nullptr) return 0;
  parts_.params.settle();
  return sums->difference();
}

StateCheck StateVerifier::now() const {
  StateCheck check;
  parts_.params.settle();
  const bool compares = !carries_checksums_ && parts_.params.axis().size() > 1;
  for (int g = 0; g < static_cast<int>(noted_.size()); ++g) {
    if (!parts_.params.owns(g)) continue;
    if (compares) check.kept = combine_checksums(check.kept, checksum_of_owned(g));
    if (carries_checksums_ && check.damaged_group < 0 && is_damaged(g)) check.damaged_group = g;
  }
  return check;
}

}  // namespace trireme

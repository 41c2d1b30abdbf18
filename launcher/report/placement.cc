#include "launcher/report/placement.h"

#include <fmt/core.h>

#include <set>
#include <vector>

#include "launcher/render/text_table.h"
#include "parallel/plan/plan_text.h"

namespace trireme {

std::string word_of(const ExchangeChoice& choice) {
  return choice.data_ranks_per_host > 1 ? "hierarchical" : "flat";
}

std::string describe_exchange(const Placement& placement, Exchange wanted, const ExchangeChoice& choice) {
  if (choice.data_ranks_per_host > 1) {
    return fmt::format(
        "exchange: hierarchical: gradients are summed over the {} data ranks of a host, then over {} hosts",
        choice.data_ranks_per_host, placement.mesh.size(Axis::kData) / choice.data_ranks_per_host);
  }
  const bool may_matter =
      wanted == Exchange::kHierarchical || spans_hosts(placement.mesh, placement.hosts, Axis::kData);
  if (choice.why_flat.empty() || !may_matter) return "";
  return fmt::format("exchange: flat, not hierarchical: {}", choice.why_flat);
}

std::string warn_of_tensor_over_hosts(const Placement& placement, const StepPrediction& prediction) {
  if (!spans_hosts(placement.mesh, placement.hosts, Axis::kTensor)) return "";
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < prediction.actions.size(); ++i) {
    const ActionKind kind = prediction.plan.actions[i].kind;
    if (computes(kind) || traits(kind).scope == Scope::kTensor) bytes += prediction.actions[i].sent_bytes;
  }
  return fmt::format(
      "parallel.tensor = {} spans hosts: each rank sends {} a step for the sums of its layers, much of it to "
      "other hosts, and every layer waits for it. Let a host have a multiple of {} ranks, or use fewer "
      "tensor ranks",
      placement.mesh.size(Axis::kTensor), format_bytes(bytes), placement.mesh.size(Axis::kTensor));
}

std::string describe_hosts(const Placement& placement) {
  const int hosts = num_hosts(placement.hosts);
  if (hosts <= 1) return "";
  TextRows rows{{"host", "ranks", "pipeline", "data", "tensor"}};
  for (int host = 0; host < hosts; ++host) {
    std::vector<int> ranks;
    std::set<int> coords[3];
    for (std::size_t rank = 0; rank < placement.hosts.size(); ++rank) {
      if (placement.hosts[rank] != host) continue;
      ranks.push_back(static_cast<int>(rank));
      const Coord coord = placement.mesh.coord(static_cast<int>(rank));
      int axis = 0;
      for (const Axis a : {Axis::kPipeline, Axis::kData, Axis::kTensor}) coords[axis++].insert(coord[a]);
    }
    std::vector<std::string>& row = rows.emplace_back();
    row = {fmt::format("{}", host), format_ranks(ranks)};
    for (const std::set<int>& values : coords) row.push_back(format_ranks({values.begin(), values.end()}));
  }
  return "\nranks, and their coordinates, by host:\n" +
         to_text(rows, {.num_left = 5, .num_kept = 5, .most_rows = 8});
}

}  // namespace trireme

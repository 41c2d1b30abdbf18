#include "launcher/report/placement.h"

#include <fmt/core.h>

#include <map>
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

std::string describe_places(const Placement& placement) {
  const bool by_host = num_hosts(placement.hosts) > 1;
  const int tensor = placement.mesh.size(Axis::kTensor);
  if (!by_host && tensor == 1) return "";
  std::map<int, std::vector<int>> groups;  // of ranks
  for (int rank = 0; rank < placement.mesh.num_ranks(); ++rank)
    groups[by_host ? placement.hosts[static_cast<std::size_t>(rank)] : rank / tensor].push_back(rank);
  TextRows rows{{"host", "ranks", "pipeline", "data", "tensor"}};
  for (const auto& [group, ranks] : groups) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {fmt::format("{}", group), format_ranks(ranks)};
    for (const Axis axis : {Axis::kPipeline, Axis::kData, Axis::kTensor}) {
      std::set<int> coords;
      for (const int rank : ranks) coords.insert(placement.mesh.coord(rank)[axis]);
      row.push_back(format_ranks({coords.begin(), coords.end()}));
    }
  }
  if (!by_host) {
    for (auto& row : rows) row.erase(row.begin());
  }
  return fmt::format("\nranks, and their coordinates{}:\n", by_host ? ", by host" : "") +
         to_text(rows, {.num_left = 5, .num_kept = 5, .most_rows = 8});
}

}  // namespace trireme

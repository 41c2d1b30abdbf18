#include "parallel/layout/stage_cut.h"

#include <algorithm>
#include <limits>

namespace trireme {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// [first][last]: cost of blocks [first, last).
using RangeCosts = std::vector<std::vector<double>>;

RangeCosts range_costs(const std::vector<double>& blocks) {
  RangeCosts costs(blocks.size(), std::vector<double>(blocks.size() + 1, 0.0));
  for (std::size_t first = 0; first < blocks.size(); ++first) {
    for (std::size_t last = first; last < blocks.size(); ++last) {
      costs[first][last + 1] = costs[first][last] + blocks[last];
    }
  }
  return costs;
}

/// Finds the cut with the lowest total cost: `join` combines the costs `cost(first, last, chunk)` of its
/// chunks. Dynamic programming over the first block of each chunk, starting with the last chunk. Of equal
/// cuts, returns the bounds that are smallest. Returns an empty list if every cut has infinite cost.
std::vector<int> cheapest_bounds(const StageCounts& counts, const auto& cost, const auto& join) {
  const int num_blocks = counts.num_units, num_chunks = counts.pipeline * counts.chunks;
  const auto n = static_cast<std::size_t>(num_blocks);
  std::vector<double> after(n + 1, kInfinite);  // [first]: cost of the later chunks, from block `first` on
  after[n] = 0.0;
  std::vector<std::vector<int>> ends(static_cast<std::size_t>(num_chunks), std::vector<int>(n + 1, -1));
  for (int chunk = num_chunks - 1; chunk >= 0; --chunk) {
    std::vector<double> best(n + 1, kInfinite);
    for (int first = chunk; first < num_blocks; ++first) {
      for (int last = first + 1; last <= num_blocks - (num_chunks - 1 - chunk); ++last) {
        if (after[static_cast<std::size_t>(last)] == kInfinite) continue;
        const double total = join(cost(first, last, chunk), after[static_cast<std::size_t>(last)]);
        if (total >= best[static_cast<std::size_t>(first)]) continue;
        best[static_cast<std::size_t>(first)] = total;
        ends[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(first)] = last;
      }
    }
    after = std::move(best);
  }
  if (after[0] == kInfinite) return {};
  std::vector<int> bounds{0};
  for (const std::vector<int>& end : ends) bounds.push_back(end[static_cast<std::size_t>(bounds.back())]);
  return bounds;
}

}  // namespace

StageMap cut_evenly(const std::vector<double>& costs, int pipeline, int chunks) {
  const StageCounts counts{
      .num_units = static_cast<int>(costs.size()), .pipeline = pipeline, .chunks = chunks};
  return *cut_evenly_without([](int, int, int) { return false; }, costs, counts);
}

std::optional<StageMap> cut_evenly_without(const RangeRefused& refused, const std::vector<double>& costs,
                                           const StageCounts& counts) {
  StageMap cut = StageMap::even(counts);
  const RangeCosts ranges = range_costs(costs);
  const auto cost = [&](int first, int last, int chunk) {
    if (refused(first, last, chunk)) return kInfinite;
    return ranges[static_cast<std::size_t>(first)][static_cast<std::size_t>(last)];
  };
  cut.bounds = cheapest_bounds(counts, cost, [](double a, double b) { return std::max(a, b); });
  if (cut.bounds.empty()) return std::nullopt;
  const double slowest = std::ranges::max(chunk_costs(cut, costs));
  const auto squared = [&](int first, int last, int chunk) {
    const double c = cost(first, last, chunk);
    return c <= slowest ? c * c : kInfinite;
  };
  cut.bounds = cheapest_bounds(counts, squared, [](double a, double b) { return a + b; });
  return cut;
}

std::vector<double> chunk_costs(const StageMap& stages, const std::vector<double>& costs) {
  std::vector<double> sums;
  for (int chunk = 0; chunk < stages.num_chunks(); ++chunk) {
    double sum = 0.0;
    for (int block = stages.first_unit(chunk); block < stages.end_unit(chunk); ++block) {
      sum += costs[static_cast<std::size_t>(block)];
    }
    sums.push_back(sum);
  }
  return sums;
}

std::vector<double> parameter_costs(const BlockList& blocks) {
  std::vector<double> costs;
  for (const auto& block : blocks) {
    double elems = 0.0;
    for (const ParameterSpec& spec : block->parameters())
      elems += static_cast<double>(spec.shape.num_elems());
    costs.push_back(elems);
  }
  return costs;
}

}  // namespace trireme

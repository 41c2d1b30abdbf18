#include "parallel/foresee/stage_cut.h"

#include <algorithm>
#include <limits>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

void check_counts(int num_blocks, int num_stages) {
  TRIREME_CHECK(num_stages >= 1, "parallel.pipeline: {} stages; it takes 1 or more", num_stages);
  TRIREME_CHECK(
      num_stages <= num_blocks,
      "parallel.pipeline (x parallel.chunks) makes {} stages, more than the model's {} blocks: every "
      "stage needs a block",
      num_stages, num_blocks);
}

/// [first][last] cost of blocks [first, last); infinite where the blocks cannot be one stage.
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

/// The cut of least `join`ed cost, from `cost(first, last, stage)` of each stage, by dynamic programming over
/// where a stage begins, the last stage first; of equal cuts the one with the smallest boundaries. Empty
/// where every cut is infinite.
template <typename Cost, typename Join>
std::vector<int> cheapest_cut(int num_blocks, int num_stages, const Cost& cost, const Join& join) {
  const auto n = static_cast<std::size_t>(num_blocks);
  std::vector<double> after(n + 1, kInfinite);  // [first] of the stages after this one, from block `first`
  after[n] = 0.0;
  std::vector<std::vector<int>> ends(static_cast<std::size_t>(num_stages), std::vector<int>(n + 1, -1));
  for (int stage = num_stages - 1; stage >= 0; --stage) {
    std::vector<double> best(n + 1, kInfinite);
    for (int first = stage; first < num_blocks; ++first) {
      for (int last = first + 1; last <= num_blocks - (num_stages - 1 - stage); ++last) {
        if (after[static_cast<std::size_t>(last)] == kInfinite) continue;
        const double total = join(cost(first, last, stage), after[static_cast<std::size_t>(last)]);
        if (total >= best[static_cast<std::size_t>(first)]) continue;
        best[static_cast<std::size_t>(first)] = total;
        ends[static_cast<std::size_t>(stage)][static_cast<std::size_t>(first)] = last;
      }
    }
    after = std::move(best);
  }
  std::vector<int> firsts{0};
  if (after[0] == kInfinite) return {};
  for (int stage = 0; stage + 1 < num_stages; ++stage) {
    firsts.push_back(ends[static_cast<std::size_t>(stage)][static_cast<std::size_t>(firsts.back())]);
  }
  return firsts;
}

double larger(double a, double b) {
  return std::max(a, b);
}
double sum(double a, double b) {
  return a + b;
}

std::string describe_blocks(const CutCosts& costs, int first, int last) {
  const auto name = [&](int block) {
    return costs.block_names.empty() ? fmt::format("{}", block)
                                     : costs.block_names[static_cast<std::size_t>(block)];
  };
  return last - first == 1 ? fmt::format("block {}", name(first))
                           : fmt::format("blocks {} to {}", name(first), name(last - 1));
}

/// Where no cut fits, the one that comes closest says why.
[[noreturn]] void throw_none_fits(const CutCosts& costs, int num_stages) {
  const int num_blocks = static_cast<int>(costs.blocks.size());
  const auto bytes = [&](int first, int last, int stage) {
    return static_cast<double>(costs.bytes(first, last, stage));
  };
  const StageCut closest{cheapest_cut(num_blocks, num_stages, bytes, larger), num_blocks};
  int worst = 0;
  std::int64_t worst_bytes = 0;
  for (int stage = 0; stage < num_stages; ++stage) {
    const std::int64_t needed = costs.bytes(closest.first(stage), closest.last(stage), stage);
    if (needed > worst_bytes) worst = stage, worst_bytes = needed;
  }
  throw Error(
      ErrorCode::kInvalidInput,
      fmt::format("parallel.pipeline_cut: no cut into {} stages fits the {} bytes of "
                  "parallel.memory_limit: where the largest stage is smallest, stage {} ({}) needs {}; "
                  "more stages, a smaller micro-batch, recompute or sharding need less",
                  num_stages, costs.memory_limit, worst,
                  describe_blocks(costs, closest.first(worst), closest.last(worst)), worst_bytes));
}

/// Empty where no cut fits.
std::optional<StageCut> find_cut(const CutCosts& costs, int num_stages) {
  const int num_blocks = static_cast<int>(costs.blocks.size());
  check_counts(num_blocks, num_stages);
  const RangeCosts ranges = range_costs(costs.blocks);
  const auto cost = [&](int first, int last, int stage) {
    const bool fits = !costs.bytes || costs.bytes(first, last, stage) <= costs.memory_limit;
    return fits ? ranges[static_cast<std::size_t>(first)][static_cast<std::size_t>(last)] : kInfinite;
  };
  const StageCut cut{cheapest_cut(num_blocks, num_stages, cost, larger), num_blocks};
  if (cut.firsts.empty()) return std::nullopt;
  const double slowest = std::ranges::max(stage_costs(cut, costs.blocks));
  const auto squared = [&](int first, int last, int stage) {
    const double c = cost(first, last, stage);
    return c <= slowest ? c * c : kInfinite;
  };
  return StageCut{cheapest_cut(num_blocks, num_stages, squared, sum), num_blocks};
}

struct StageRange {
  int first, last, stage;
};

/// Ranges of blocks that are too large for a stage, and with them all that hold one.
class RefusedRanges {
 public:
  RefusedRanges(const std::vector<int>& kinds, int num_stages)
      : kinds_(kinds), least_last_(static_cast<std::size_t>(num_stages), std::vector(kinds.size(), kNone)) {}

  /// Refuses the range, and every other one of the same kinds of blocks.
  void add(const StageRange& range) {
    std::vector<int>& least = least_last_[static_cast<std::size_t>(range.stage)];
    const int length = range.last - range.first;
    for (int first = 0; first + length <= static_cast<int>(kinds_.size()); ++first) {
      if (!std::equal(kinds_.begin() + range.first, kinds_.begin() + range.last, kinds_.begin() + first))
        continue;
      for (int f = 0; f <= first; ++f) {
        least[static_cast<std::size_t>(f)] = std::min(least[static_cast<std::size_t>(f)], first + length);
      }
    }
  }

  bool contains(const StageRange& range) const {
    return range.last >=
           least_last_[static_cast<std::size_t>(range.stage)][static_cast<std::size_t>(range.first)];
  }

 private:
  static constexpr int kNone = std::numeric_limits<int>::max();
  const std::vector<int>& kinds_;
  std::vector<std::vector<int>>
      least_last_;  // [stage][first block]: ranges up to here and further are refused
};

/// Of a stage that is too large: the shortest range from its first block that is; of the last stage, to its
/// last block. The neighbour takes what is left over, so that the cut stays one.
StageRange shortest_too_large(const StageCut& cut, int stage,
                              const std::function<bool(const StageCut&, int stage)>& fits) {
  const bool is_last = stage + 1 == cut.num_stages();
  const int first = cut.first(stage), last = cut.last(stage);
  const auto fits_with = [&](int num_blocks) {
    StageCut shorter = cut;
    if (is_last) {
      shorter.firsts.back() = last - num_blocks;
    } else {
      shorter.firsts[static_cast<std::size_t>(stage) + 1] = first + num_blocks;
    }
    return fits(shorter, stage);
  };
  int least = 1, most = last - first;  // `most` is too large
  while (least < most) {
    const int middle = least + (most - least) / 2;
    if (fits_with(middle)) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  return is_last ? StageRange{last - most, last, stage} : StageRange{first, first + most, stage};
}

}  // namespace

int StageCut::stage_of(int block) const {
  return static_cast<int>(std::ranges::upper_bound(firsts, block) - firsts.begin()) - 1;
}

StageCut cut_at(const std::vector<std::int64_t>& boundaries, int num_blocks, int num_stages) {
  check_counts(num_blocks, num_stages);
  TRIREME_CHECK(
      static_cast<int>(boundaries.size()) == num_stages - 1,
      "parallel.pipeline_cut has {} boundaries; {} stages have {}: the first block of each stage but "
      "the first",
      boundaries.size(), num_stages, num_stages - 1);
  StageCut cut{{0}, num_blocks};
  for (const std::int64_t boundary : boundaries) {
    TRIREME_CHECK(
        boundary > cut.firsts.back(),
        "parallel.pipeline_cut: boundary {} follows {}; boundaries must ascend from above 0, so that "
        "every stage has a block",
        boundary, cut.firsts.back());
    TRIREME_CHECK(boundary < num_blocks,
                  "parallel.pipeline_cut: boundary {} is beyond the last of {} blocks, which is {}", boundary,
                  num_blocks, num_blocks - 1);
    cut.firsts.push_back(static_cast<int>(boundary));
  }
  return cut;
}

StageCut cut_evenly(const CutCosts& costs, int num_stages) {
  const auto cut = find_cut(costs, num_stages);
  if (!cut) throw_none_fits(costs, num_stages);
  return *cut;
}

std::optional<StageCut> cut_within_memory(const std::vector<double>& costs, int num_stages,
                                          const MemoryQuestions& questions) {
  RefusedRanges refused(questions.kinds, num_stages);
  const auto holds_refused = [&](int first, int last, int stage) -> std::int64_t {
    return refused.contains({first, last, stage}) ? 1 : 0;
  };
  while (const auto cut = find_cut({.blocks = costs, .bytes = holds_refused}, num_stages)) {
    const std::vector<int> stages = questions.too_large(*cut);
    if (stages.empty()) return cut;
    for (const int stage : stages) refused.add(shortest_too_large(*cut, stage, questions.fits));
  }
  return std::nullopt;
}

std::vector<double> stage_costs(const StageCut& cut, const std::vector<double>& blocks) {
  std::vector<double> costs;
  for (int stage = 0; stage < cut.num_stages(); ++stage) {
    double cost = 0.0;
    for (int block = cut.first(stage); block < cut.last(stage); ++block) {
      cost += blocks[static_cast<std::size_t>(block)];
    }
    costs.push_back(cost);
  }
  return costs;
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

#include "parallel/foresee/chunked_cut.h"

#include <algorithm>
#include <limits>
#include <map>

namespace trireme {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;  // relative, of sums of times
constexpr std::int64_t kMostSteps = 1'000'000;
constexpr std::int64_t kStepsOfQuestions = 100;  // as long as the questions of one cut take, once answered

/// Asks once for each rank and kinds of its chunks.
class Memory {
 public:
  explicit Memory(const ChunkedCutCosts& costs) : costs_(costs) {
    for (std::size_t b = 0; b < costs.blocks.size(); ++b) {
      kinds_.push_back(costs.kinds.empty() ? static_cast<int>(b) : costs.kinds[b]);
    }
  }

  bool fits(const StageCut& cut, int rank) {
    std::vector<int> key{rank};
    for (int stage = rank; stage < cut.num_stages(); stage += costs_.ranks) {
      key.insert(key.end(), kinds_.begin() + cut.first(stage), kinds_.begin() + cut.last(stage));
      key.push_back(-1);
    }
    const auto found = answers_.find(key);
    if (found != answers_.end()) return found->second;
    if (answers_.size() >= costs_.most_questions) {
      is_whole_ = false;
      return false;
    }
    return answers_[key] = costs_.fits(cut, rank);
  }
  bool fits(const StageCut& cut) {
    for (int rank = 0; rank < costs_.ranks; ++rank) {
      if (!fits(cut, rank)) return false;
    }
    return true;
  }
  /// Whether every question was answered.
  bool is_whole() const { return is_whole_; }

 private:
  const ChunkedCutCosts& costs_;
  std::vector<int> kinds_;
  std::map<std::vector<int>, bool> answers_;
  bool is_whole_ = true;
};

class Search {
 public:
  Search(const ChunkedCutCosts& costs, Memory& memory)
      : ranks_(costs.ranks),
        num_stages_(costs.ranks * costs.chunks),
        num_blocks_(static_cast<int>(costs.blocks.size())),
        memory_(memory),
        trial_{.firsts = std::vector<int>(static_cast<std::size_t>(num_stages_)), .num_blocks = num_blocks_} {
    sums_.push_back(0.0);
    for (const double block : costs.blocks) sums_.push_back(sums_.back() + block);
    bound_what_remains();
  }

  /// The cheapest; of equal ones the one that was met first.
  std::optional<ChunkedCut> run() {
    descend(0, 0, 0.0);
    if (!best_) return std::nullopt;
    const bool whole = steps_ <= kMostSteps && memory_.is_whole();
    return ChunkedCut{
        .cut = *best_, .slowest = slowest_, .bound = remaining(0, 0), .is_least = whole || reaches_bound()};
  }

 private:
  double cost(int first, int last) const {
    return sums_[static_cast<std::size_t>(last)] - sums_[static_cast<std::size_t>(first)];
  }
  /// The least that the dearest of the chunks from `stage` on can cost, which begin with block `first`.
  double& remaining(int stage, int first) {
    return remaining_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(first)];
  }
  int& first_of(int stage) { return trial_.firsts[static_cast<std::size_t>(stage)]; }
  bool reaches_bound() { return slowest_ <= remaining(0, 0) * (1 + kRounding); }
  /// Cheaper than the best by more than sums round.
  bool improves(double cost) const { return cost < slowest_ * (1 - kRounding); }

  void bound_what_remains() {
    const auto n = static_cast<std::size_t>(num_blocks_);
    remaining_.assign(static_cast<std::size_t>(num_stages_) + 1, std::vector<double>(n + 1, kInfinite));
    remaining(num_stages_, num_blocks_) = 0.0;
    for (int stage = num_stages_ - 1; stage >= 0; --stage) {
      for (int first = 0; first < num_blocks_; ++first) {
        for (int last = first + 1; last <= num_blocks_; ++last) {
          const double dearest = std::max(cost(first, last), remaining(stage + 1, last));
          remaining(stage, first) = std::min(remaining(stage, first), dearest);
        }
      }
    }
  }

  /// Chooses the chunks from `stage` on, the first of which begins with block `first`; the dearest of those
  /// before it costs `before`.
  void descend(int stage, int first, double before) {
    const double least = std::max(before, remaining(stage, first));
    if (++steps_ > kMostSteps || reaches_bound() || !improves(least)) return;
    first_of(stage) = first;
    if (stage >= num_stages_ - ranks_) return finish(stage, before);
    const int left = num_stages_ - 1 - stage;  // chunks behind it
    const int most = num_blocks_ - left;
    const double even = cost(first, num_blocks_) / (left + 1);
    // Ends of the chunk outwards from where it has an even share.
    int above = first + 1;
    while (above < most && cost(first, above) < even) ++above;
    int below = above - 1;
    while (below > first || above <= most) {
      const bool up =
          below == first || (above <= most && cost(first, above) - even <= even - cost(first, below));
      const int last = up ? above++ : below--;
      if (improves(cost(first, last))) {
        descend(stage + 1, last, std::max(before, cost(first, last)));
      } else if (up) {
        above = most + 1;  // nor does a larger one
      }
    }
  }

  /// The last chunk of every rank: as many blocks as time and memory let it take. Again, for as long as it
  /// gets cheaper.
  void finish(int stage, double before) {
    while (!reaches_bound() && improves(before) && fill(stage)) {
    }
  }

  /// True where that improved the best cut.
  bool fill(int from) {
    steps_ += kStepsOfQuestions;
    for (int stage = from; stage < num_stages_; ++stage) {
      const int first = first_of(stage), most = num_blocks_ - (num_stages_ - 1 - stage);
      const int quick = farthest(first, most, [&](int end) { return improves(cost(first, end)); });
      const int last = farthest(first, quick, [&](int end) { return chunk_fits(stage, end); });
      const bool is_last = stage + 1 == num_stages_;
      if (last == first || !improves(remaining(stage + 1, last)) || (is_last && last < num_blocks_))
        return false;
      if (!is_last) first_of(stage + 1) = last;
    }
    best_ = trial_;
    slowest_ = 0;
    for (int stage = 0; stage < num_stages_; ++stage) {
      slowest_ = std::max(slowest_, cost(trial_.first(stage), trial_.last(stage)));
    }
    return true;
  }

  /// The last of (first, most] that `takes` takes, as all before it; `first` where it takes none.
  template <class Takes>
  static int farthest(int first, int most, const Takes& takes) {
    int low = first, high = most;  // low is taken, all beyond high are not
    if (high > low && takes(high)) return high;
    while (low + 1 < high) {
      const int middle = low + (high - low) / 2;
      (takes(middle) ? low : high) = middle;
    }
    return low;
  }

  /// Whether a rank's chunks fit, the last of which, `stage`, ends before block `end`.
  bool chunk_fits(int stage, int end) const {
    StageCut cut = trial_;  // the others behind it have some block each
    for (int s = stage + 1; s < num_stages_; ++s)
      cut.firsts[static_cast<std::size_t>(s)] = end + s - stage - 1;
    return memory_.fits(cut, stage % ranks_);
  }

  const int ranks_, num_stages_, num_blocks_;
  Memory& memory_;
  std::vector<double> sums_;                    // [b] of the blocks before b
  std::vector<std::vector<double>> remaining_;  // [stage][first]
  StageCut trial_;
  std::optional<StageCut> best_;
  double slowest_ = kInfinite;
  std::int64_t steps_ = 0;
};

/// Moves boundaries by a block for as long as that makes chunks more even (their sum of squares less) and
/// none dearer than the dearest.
void make_even(const ChunkedCutCosts& costs, Memory& memory, ChunkedCut& found) {
  const auto squares = [&](const StageCut& cut) {
    double sum = 0;
    for (const double cost : stage_costs(cut, costs.blocks)) sum += cost * cost;
    return sum;
  };
  const auto is_better = [&](const StageCut& cut) {
    return squares(cut) < squares(found.cut) * (1 - kRounding) &&
           std::ranges::max(stage_costs(cut, costs.blocks)) <= found.slowest * (1 + kRounding) &&
           memory.fits(cut);
  };
  const int num_stages = found.cut.num_stages();
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 1; stage < num_stages; ++stage) {
      for (const int by : {-1, 1}) {
        StageCut cut = found.cut;
        int& first = cut.firsts[static_cast<std::size_t>(stage)];
        first += by;
        if (first <= cut.first(stage - 1) || first >= cut.last(stage) || !is_better(cut)) continue;
        found.cut = cut;
        moved = true;
      }
    }
  }
}

}  // namespace

std::optional<ChunkedCut> cut_into_chunks(const ChunkedCutCosts& costs) {
  Memory memory(costs);
  const StageCut even = cut_evenly({.blocks = costs.blocks}, costs.ranks * costs.chunks);
  if (memory.fits(even)) {
    const double slowest = std::ranges::max(stage_costs(even, costs.blocks));
    return ChunkedCut{.cut = even, .slowest = slowest, .bound = slowest, .is_least = true};
  }
  auto best = Search(costs, memory).run();
  if (best) make_even(costs, memory, *best);
  return best;
}

}  // namespace trireme

#include "parallel/foresee/memory_cut.h"

#include <algorithm>
#include <map>
#include <utility>

#include "parallel/foresee/block_times.h"

namespace trireme {
namespace {

/// Blocks [first, last) as a chunk.
struct ChunkRange {
  int chunk = 0, first = 0, last = 0;
};

/// Ranges of blocks that a chunk may hold, or may not.
class RangeSet {
 public:
  explicit RangeSet(const std::vector<int>& kinds)
      : kinds_(&kinds),
        num_blocks_(static_cast<int>(kinds.size())),
        contains_(kinds.size() * (kinds.size() + 1), 0) {}

  bool contains(int first, int last) const { return contains_[index(first, last)] != 0; }
  /// The range, and every other one of the same kinds of blocks.
  void add(const ChunkRange& range) {
    const int length = range.last - range.first;
    const auto begin = kinds_->begin();
    for (int first = 0; first + length <= num_blocks_; ++first) {
      if (std::equal(begin + range.first, begin + range.last, begin + first)) {
        contains_[index(first, first + length)] = 1;
      }
    }
  }
  /// All that hold one of the set.
  void add_larger() {
    for (int length = 2; length <= num_blocks_; ++length) {
      for (int first = 0; first + length <= num_blocks_; ++first) {
        const int last = first + length;
        if (contains(first + 1, last) || contains(first, last - 1)) contains_[index(first, last)] = 1;
      }
    }
  }
  void add_all_but(const RangeSet& others) {
    for (std::size_t i = 0; i < contains_.size(); ++i) contains_[i] |= others.contains_[i] == 0;
  }

 private:
  std::size_t index(int first, int last) const {
    return static_cast<std::size_t>(first * (num_blocks_ + 1) + last);
  }

  const std::vector<int>* kinds_;
  int num_blocks_;
  std::vector<char> contains_;  // [first][last]
};

class Search {
 public:
  explicit Search(const CutQuestion& question)
      : question_(question),
        counts_{.num_units = static_cast<int>(question.costs.size()),
                .pipeline = question.pipeline,
                .chunks = question.chunks} {}

  MemoryCut run() {
    open({});
    for (bool is_first = true; !cases_.empty(); is_first = false) {
      Case next = std::move(cases_.extract(cases_.begin()).mapped());
      std::vector<int> too_large;
      const std::optional<CutNeed> need = examine(next.cut, too_large);
      if (!need) break;
      if (is_first) found_.fastest = *need;
      if (is_first || need->bytes < found_.closest.bytes) found_.closest = *need;
      if (too_large.empty()) {
        found_.cut = next.cut;
        break;
      }
      follow(std::move(next), too_large, need->stage);
    }
    return std::move(found_);
  }

 private:
  struct Case {
    std::vector<ChunkRange> refused, required;
    StageMap cut;  // the fastest of the case
  };

  // Of dynamic programming: some seconds.
  static constexpr std::int64_t kMostWork = 500'000'000;
  bool is_half_over() const {
    return is_half_over_ || work_ > kMostWork / 2 || 2 * bytes_.size() > question_.most_predictions;
  }
  bool may_go_on() const {
    return bytes_.size() < question_.most_predictions && (counts_.chunks == 1 || work_ < kMostWork);
  }
  bool grows() const { return question_.grows || is_half_over_; }

  void open(Case of) {
    const int num_chunks = counts_.pipeline * counts_.chunks;
    std::vector<RangeSet> refused(static_cast<std::size_t>(num_chunks), RangeSet(question_.kinds));
    for (const ChunkRange& range : of.refused) refused[static_cast<std::size_t>(range.chunk)].add(range);
    for (RangeSet& ranges : refused) {
      if (grows()) ranges.add_larger();
    }
    for (const ChunkRange& range : of.required) {
      RangeSet ranges(question_.kinds);
      ranges.add(range);
      if (grows()) ranges.add_larger();
      refused[static_cast<std::size_t>(range.chunk)].add_all_but(ranges);
    }
    const auto is_refused = [&](int first, int last, int chunk) {
      return refused[static_cast<std::size_t>(chunk)].contains(first, last);
    };
    work_ += std::int64_t{num_chunks} * counts_.num_units * counts_.num_units;
    auto cut = cut_evenly_without(is_refused, question_.costs, counts_);
    if (!cut) return;
    of.cut = std::move(*cut);
    cases_.emplace(std::ranges::max(chunk_costs(of.cut, question_.costs)), std::move(of));
  }

  /// The cases of a cut some stages of which are too large, `largest` most of all. They have no cut in
  /// common: one refuses a chunk its range, and requires those of the chunks before it.
  void follow(Case of, const std::vector<int>& too_large, int largest) {
    if (is_half_over() && !is_half_over_) {
      found_.is_fastest = counts_.chunks == 1 && question_.grows;
      is_half_over_ = true;
    }
    if (counts_.chunks == 1 || is_half_over_) {
      for (const int stage : too_large) {
        const std::vector<ChunkRange> ranges = ranges_too_large(of.cut, stage);
        of.refused.push_back(ranges.front());
        for (std::size_t i = 1; i < ranges.size(); ++i) of.refused.push_back(with_a_block_more(ranges[i]));
      }
      of.required.clear();
      cases_.clear();
      return open(std::move(of));
    }
    for (const ChunkRange& range : ranges_too_large(of.cut, largest)) {
      Case without = of;
      without.refused.push_back(range);
      open(std::move(without));
      of.required.push_back(range);
    }
  }

  ChunkRange with_a_block_more(ChunkRange range) const {
    if (range.last < counts_.num_units) {
      ++range.last;
    } else {
      --range.first;
    }
    return range;
  }

  /// What the ranks of a cut need; empty where that may not be asked any more.
  std::optional<CutNeed> examine(const StageMap& cut, std::vector<int>& too_large) {
    CutNeed need{.cut = cut};
    for (int stage = 0; stage < counts_.pipeline; ++stage) {
      const auto bytes = bytes_of(cut, stage);
      if (!bytes) return std::nullopt;
      if (*bytes > question_.limit_bytes) too_large.push_back(stage);
      if (*bytes > need.bytes) need.stage = stage, need.bytes = *bytes;
    }
    return need;
  }

  /// Asked once for each stage and kinds of its blocks.
  std::optional<std::int64_t> bytes_of(const StageMap& cut, int stage) {
    std::vector<int> key{stage};
    for (int chunk = stage; chunk < cut.num_chunks(); chunk += counts_.pipeline) {
      key.insert(key.end(), question_.kinds.begin() + cut.first_unit(chunk),
                 question_.kinds.begin() + cut.end_unit(chunk));
      key.push_back(-1);
    }
    const auto known = bytes_.find(key);
    if (known != bytes_.end()) return known->second;
    if (!may_go_on()) {
      found_.is_fastest = false;
      return std::nullopt;
    }
    return bytes_[key] = question_.bytes(cut, stage);
  }

  /// Of a stage that is too large: for each of its chunks the shortest range from its first block with which
  /// it still is, all shorter by equally many blocks; of the last chunk, to its last block. The neighbours
  /// take what is left over, so that the cut stays one.
  std::vector<ChunkRange> ranges_too_large(const StageMap& cut, int stage) {
    const auto shorter_by = [&](int num_blocks) {
      StageMap shorter = cut;
      for (int chunk = stage; chunk < cut.num_chunks(); chunk += cut.pipeline) {
        const int length = std::max(1, cut.end_unit(chunk) - cut.first_unit(chunk) - num_blocks);
        const bool is_last = chunk + 1 == cut.num_chunks();
        shorter.bounds[static_cast<std::size_t>(is_last ? chunk : chunk + 1)] =
            is_last ? cut.end_unit(chunk) - length : cut.first_unit(chunk) + length;
      }
      return shorter;
    };
    int least = 0, most = grows() ? counts_.num_units : 1;  // `least` is too large, `most` is not, or no cut
    while (least + 1 < most) {
      const int middle = least + (most - least) / 2;
      const auto bytes = bytes_of(shorter_by(middle), stage);
      (bytes && *bytes > question_.limit_bytes ? least : most) = middle;
    }
    const StageMap shortest = shorter_by(least);
    std::vector<ChunkRange> ranges;
    for (int chunk = stage; chunk < cut.num_chunks(); chunk += cut.pipeline) {
      ranges.push_back({chunk, shortest.first_unit(chunk), shortest.end_unit(chunk)});
    }
    return ranges;
  }

  const CutQuestion& question_;
  const StageCounts counts_;
  std::multimap<double, Case> cases_;  // open, by the cost of the most expensive chunk
  std::map<std::vector<int>, std::int64_t> bytes_;
  std::int64_t work_ = 0;
  bool is_half_over_ = false;
  MemoryCut found_;
};

/// [block] the first block that does the same work.
std::vector<int> kinds_of(const BlockList& blocks) {
  std::vector<int> kinds;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    std::size_t first = 0;
    while (first < b && !is_twin(*blocks[first], *blocks[b])) ++first;
    kinds.push_back(static_cast<int>(first));
  }
  return kinds;
}

/// How many predictions of a stage are a matter of seconds: each takes 5 to 20 us a block and micro-batch.
std::size_t predictions_of_seconds(const PlannedJob& job) {
  const std::int64_t micro_batches = job.options.global_batch / job.options.micro_batch;
  const std::int64_t actions = micro_batches * static_cast<std::int64_t>(job.blocks->size()) *
                               job.options.pipeline.stages / job.num_ranks;
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(300'000 / std::max<std::int64_t>(actions, 1), 100, 2000));
}

std::int64_t bytes_of_stage(PlannedJob job, const StageMap& cut, int stage) {
  job.options.pipeline.cut = cut.first_units();
  job.options.planning = Planning::kOwnRank;
  const Mesh mesh = mesh_of(job.num_ranks, job.options.pipeline.stages);
  const BatchLayout batch{.global_batch = job.options.global_batch,
                          .micro_batch = job.options.micro_batch,
                          .data_ranks = mesh.size(Axis::kData)};
  std::int64_t most = 0;
  for (const std::vector<int>& ranks : classes_of_equal_needs(batch, mesh)) {
    if (mesh.coord(ranks[0])[Axis::kPipeline] != stage) continue;
    const StepPrediction step = predict_step(job.blocks, job.options, job.sample, job.num_ranks, ranks[0]);
    most = std::max(most, step.memory.peak_total);
  }
  return most;
}

}  // namespace

MemoryCut cut_within_memory(const CutQuestion& question) {
  return Search(question).run();
}

CutNeed closest_cut(const PlannedJob& job, const std::vector<double>& costs, std::int64_t limit_bytes,
                    CutNeed closest) {
  constexpr int kSteps = 4;
  for (int step = 0; step < kSteps; ++step) {
    const std::int64_t between = limit_bytes + (closest.bytes - limit_bytes) / 2;
    const MemoryCut found = cut_within_memory(job, costs, between);
    if (!found.cut) limit_bytes = between;
    if (found.closest.bytes < closest.bytes) closest = found.closest;
  }
  return closest;
}

MemoryCut cut_within_memory(const PlannedJob& job, const std::vector<double>& costs,
                            std::int64_t limit_bytes) {
  return cut_within_memory(
      {.costs = costs,
       .pipeline = job.options.pipeline.stages,
       .chunks = job.options.pipeline.chunks,
       .kinds = kinds_of(*job.blocks),
       .bytes = [&](const StageMap& cut, int stage) { return bytes_of_stage(job, cut, stage); },
       .limit_bytes = limit_bytes,
       .grows = job.options.recompute_every == 0,
       .most_predictions = predictions_of_seconds(job)});
}

}  // namespace trireme

#include "parallel/foresee/memory_cut.h"

#include <algorithm>
#include <map>
#include <vector>

#include "parallel/foresee/block_times.h"

namespace trireme {
namespace {

class Search {
 public:
  explicit Search(const CutQuestion& question)
      : question_(question),
        counts_{.num_units = static_cast<int>(question.costs.size()),
                .pipeline = question.pipeline,
                .chunks = question.chunks},
        too_long_(static_cast<std::size_t>(question.pipeline * question.chunks),
                  std::vector<int>(question.costs.size() + 1, counts_.num_units + 1)) {}

  MemoryCut run() {
    const auto refused = [&](int first, int last, int chunk) {
      return last >= too_long_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(first)];
    };
    const bool is_exact = counts_.chunks == 1 && question_.grows;
    MemoryCut found{.is_fastest = is_exact};
    bool is_first = true;
    while (const auto cut = cut_evenly_without(refused, question_.costs, counts_)) {
      CutNeed need{.cut = *cut};
      std::vector<int> too_large;
      for (int stage = 0; stage < counts_.pipeline; ++stage) {
        const std::int64_t bytes = bytes_of(*cut, stage);
        if (bytes > question_.limit_bytes) too_large.push_back(stage);
        if (bytes > need.bytes) need.stage = stage, need.bytes = bytes;
      }
      if (is_first) found.fastest = need;
      if (is_first || need.bytes < found.closest.bytes) found.closest = need;
      if (too_large.empty()) {
        found.cut = cut;
        found.is_fastest = is_first || is_exact;
        break;
      }
      for (const int stage : too_large) refuse(*cut, stage);
      is_first = false;
    }
    return found;
  }

 private:
  /// Computed once for each stage and the kinds of its blocks.
  std::int64_t bytes_of(const StageMap& cut, int stage) {
    std::vector<int> key{stage};
    for (int chunk = stage; chunk < cut.num_chunks(); chunk += counts_.pipeline) {
      key.insert(key.end(), question_.kinds.begin() + cut.first_unit(chunk),
                 question_.kinds.begin() + cut.end_unit(chunk));
      key.push_back(-1);
    }
    const auto known = bytes_.find(key);
    if (known != bytes_.end()) return known->second;
    return bytes_[key] = question_.bytes(cut, stage);
  }

  /// Refuses the longest chunk of a stage that is too large. If the stage has only one chunk, refuses the
  /// shortest part of it with which the stage is still too large.
  void refuse(const StageMap& cut, int stage) {
    int chunk = stage;
    for (int other = stage; other < cut.num_chunks(); other += counts_.pipeline) {
      if (length_of(cut, other) > length_of(cut, chunk)) chunk = other;
    }
    int fits = counts_.chunks == 1 ? 0 : length_of(cut, chunk) - 1, length = length_of(cut, chunk);
    while (fits + 1 < length) {
      const int middle = fits + (length - fits) / 2;
      const bool is_too_large = bytes_of(with_length(cut, chunk, middle), stage) > question_.limit_bytes;
      (is_too_large ? length : fits) = middle;
    }
    const StageMap shortest = with_length(cut, chunk, length);
    refuse_range(chunk, shortest.first_unit(chunk), shortest.end_unit(chunk));
  }

  static int length_of(const StageMap& cut, int chunk) { return cut.end_unit(chunk) - cut.first_unit(chunk); }
  /// Cuts a chunk to its first `length` blocks, or the last chunk to its last ones; a neighbour takes the
  /// others.
  static StageMap with_length(StageMap cut, int chunk, int length) {
    const bool is_last = chunk + 1 == cut.num_chunks();
    cut.bounds[static_cast<std::size_t>(is_last ? chunk : chunk + 1)] =
        is_last ? cut.end_unit(chunk) - length : cut.first_unit(chunk) + length;
    return cut;
  }

  /// Also refuses all ranges of the same kinds of blocks, and all ranges that contain one of them.
  void refuse_range(int chunk, int first, int last) {
    std::vector<int>& too_long = too_long_[static_cast<std::size_t>(chunk)];
    const auto kinds = question_.kinds.begin();
    const int length = last - first;
    for (int at = counts_.num_units - length; at >= 0; --at) {
      int& end = too_long[static_cast<std::size_t>(at)];
      if (std::equal(kinds + first, kinds + last, kinds + at)) end = std::min(end, at + length);
      end = std::min(end, too_long[static_cast<std::size_t>(at) + 1]);
    }
  }

  const CutQuestion& question_;
  const StageCounts counts_;
  std::vector<std::vector<int>> too_long_;  // [chunk][first block]: the first refused end
  std::map<std::vector<int>, std::int64_t> bytes_;
};

std::int64_t bytes_of_stage(PlannedJob job, const StageMap& cut, int stage) {
  job.options.layout.cut = cut.first_units();
  job.options.planning = Planning::kOwnRank;
  const Mesh mesh = mesh_of(job.num_ranks, job.options.layout.pipeline, job.options.layout.tensor);
  std::int64_t most = 0;
  for (const int rank : ranks_of_largest_needs(job.options, job.num_ranks)) {
    if (mesh.coord(rank)[Axis::kPipeline] != stage) continue;
    const StepPrediction step = predict_step(job.blocks, job.options, job.sample, job.num_ranks, rank);
    most = std::max(most, step.memory.device_peak);
  }
  return most;
}

/// The search for a cut of `job`, which outlives it.
CutQuestion question_of(const PlannedJob& job, const std::vector<double>& costs, std::int64_t limit_bytes) {
  return {.costs = costs,
          .pipeline = job.options.layout.pipeline,
          .chunks = job.options.layout.chunks,
          .kinds = kinds_of(*job.blocks, job.options.rules),
          .bytes = [&](const StageMap& cut, int stage) { return bytes_of_stage(job, cut, stage); },
          .limit_bytes = limit_bytes,
          .grows = !job.options.layout.recomputes_segments()};
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
  return cut_within_memory(question_of(job, costs, limit_bytes));
}

bool may_be_cut_within(const std::vector<std::int64_t>& bytes, std::int64_t limit_bytes) {
  double stages = 0;
  for (const std::int64_t of_stage : bytes) {
    stages += static_cast<double>(limit_bytes) / static_cast<double>(std::max<std::int64_t>(of_stage, 1));
  }
  return stages >= static_cast<double>(bytes.size());
}

bool may_be_cut_within(const PlannedJob& job, const std::vector<double>& costs, std::int64_t limit_bytes) {
  const Layout& axes = job.options.layout;
  const StageMap fastest = cut_evenly(costs, axes.pipeline, axes.chunks);
  std::vector<std::int64_t> bytes;
  for (int stage = 0; stage < axes.pipeline; ++stage) bytes.push_back(bytes_of_stage(job, fastest, stage));
  return may_be_cut_within(bytes, limit_bytes);
}

}  // namespace trireme

#include "parallel/foresee/closest_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "parallel/foresee/memory_cut.h"
#include "parallel/foresee/short_step.h"

namespace trireme {
namespace {

bool is_smallest(const PlannedJob& layout) {
  const EngineOptions& options = layout.options;
  const int data = options.layout.data_ranks(layout.num_ranks);
  return options.layout.recomputes_segments() &&
         (data == 1 || options.layout.zero == ZeroStage::kParameters) &&
         options.layout.schedule != PipelineSchedule::kZeroBubbleH1;
}

class ClosestFinder {
 public:
  ClosestFinder(const std::vector<double>& costs, const OpenFields& open,
                const std::function<void(const EngineOptions&)>& check)
      : costs_(costs), open_(open), check_(check) {}

  void compare(const PlannedJob& layout) {
    try {
      if (check_) check_(layout.options);
      compare_checked(layout);
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
    }
  }

  bool has_one() const { return !estimated_.empty(); }

  /// The smallest of the layouts with the smallest estimates, by predictions of whole steps.
  ClosestLayout closest() {
    constexpr std::size_t kMostPlayed = 2;
    std::ranges::stable_sort(estimated_, {}, &ClosestLayout::bytes);
    ClosestLayout found;
    for (std::size_t i = 0; i < std::min(estimated_.size(), kMostPlayed); ++i) {
      const std::int64_t bytes = largest_peak(*estimated_[i].job);
      if (!found.job || bytes < found.bytes) found = {.job = estimated_[i].job, .bytes = bytes};
    }
    return found;
  }

 private:
  void compare_checked(PlannedJob layout) {
    layout.options = accumulation_choices(layout.options, open_, layout.num_ranks).back();
    Layout& axes = layout.options.layout;
    if (axes.pipeline > 1 && axes.cut.empty()) {
      const std::optional<StageMap> cut = smallest_cut(brief_of(layout, 1));
      if (!cut) return;
      axes.cut = cut->first_units();
    }
    const PlannedJob brief = brief_of(layout, 1), longer = brief_of(layout, 2);
    const std::int64_t bytes = largest_peak(brief), of_longer = largest_peak(longer);
    least_brief_ = std::min(least_brief_, bytes);
    // Each doubling of the micro-batches may add one kept sum of gradients.
    const double doublings = doublings_between(brief, longer);
    const double each = doublings > 0 ? static_cast<double>(of_longer - bytes) / doublings : 0.0;
    const double more = each * doublings_between(brief, layout);
    estimated_.push_back({.job = layout, .bytes = bytes + static_cast<std::int64_t>(more)});
  }

  static PlannedJob brief_of(const PlannedJob& layout, int scale) {
    return short_step(layout, 2 * scale * layout.options.layout.pipeline, Shortened::kNoLonger);
  }

  static double doublings_between(const PlannedJob& a, const PlannedJob& b) {
    return std::log2(static_cast<double>(b.options.global_batch) /
                     static_cast<double>(a.options.global_batch));
  }

  static std::int64_t largest_peak(PlannedJob job) {
    job.options.planning = Planning::kOwnRank;
    return predict_largest_step(job.blocks, job.options, job.sample, job.num_ranks).memory.device_peak;
  }

  /// Peaks of a short step, by stage.
  static std::vector<std::int64_t> peaks_of_stages(PlannedJob job, const StageMap& cut) {
    job.options.layout.cut = cut.first_units();
    job.options.planning = Planning::kOwnRank;
    const Mesh mesh = mesh_of(job.num_ranks, cut.pipeline, job.options.layout.tensor);
    std::vector<std::int64_t> peaks;
    for (int stage = 0; stage < cut.pipeline; ++stage) {
      const int rank = mesh.rank({{Axis::kPipeline, stage}});
      const StepPrediction step = predict_step(job.blocks, job.options, job.sample, job.num_ranks, rank);
      peaks.push_back(step.memory.device_peak);
    }
    return peaks;
  }

  /// Tries a few cuts and returns the one whose largest stage needs least in a short step. Each cut is even
  /// by the memory that blocks needed in the previous cut. Empty if the layout surely needs much more than
  /// another.
  std::optional<StageMap> smallest_cut(const PlannedJob& brief) const {
    constexpr int kMostCuts = 4;
    const Layout& axes = brief.options.layout;
    std::vector<double> costs = costs_;
    std::optional<StageMap> smallest;
    std::int64_t its_bytes = 0;
    for (int tried = 0; tried < kMostCuts; ++tried) {
      const StageMap cut = cut_evenly(costs, axes.pipeline, axes.chunks);
      const std::vector<std::int64_t> peaks = peaks_of_stages(brief, cut);
      if (has_one() && !may_be_cut_within(peaks, least_brief_ / 2 * 3)) break;
      if (!smallest || std::ranges::max(peaks) < its_bytes) {
        smallest = cut;
        its_bytes = std::ranges::max(peaks);
      }
      std::vector<int> num_blocks(peaks.size());
      for (int chunk = 0; chunk < cut.num_chunks(); ++chunk) {
        num_blocks[static_cast<std::size_t>(chunk % cut.pipeline)] +=
            cut.end_unit(chunk) - cut.first_unit(chunk);
      }
      for (std::size_t unit = 0; unit < costs.size(); ++unit) {
        const auto stage = static_cast<std::size_t>(cut.chunk_of(static_cast<int>(unit)) % cut.pipeline);
        costs[unit] = static_cast<double>(peaks[stage]) / num_blocks[stage];
      }
    }
    return smallest;
  }

  const std::vector<double>& costs_;
  const OpenFields& open_;
  const std::function<void(const EngineOptions&)>& check_;
  std::vector<ClosestLayout> estimated_;
  std::int64_t least_brief_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace

ClosestLayout closest_layout(const std::vector<LayoutFamily>& families, const std::vector<double>& costs,
                             const OpenFields& open, const std::function<void(const EngineOptions&)>& check) {
  ClosestFinder finder(costs, open, check);
  for (const bool smallest_only : {true, false}) {
    for (const LayoutFamily& family : families) {
      for (std::size_t i = 0; i < family.shardings.size(); ++i) {
        const PlannedJob layout = family.layout(i);
        if (!smallest_only || is_smallest(layout)) finder.compare(layout);
      }
    }
    if (finder.has_one()) break;
  }
  return finder.closest();
}

}  // namespace trireme

#include "parallel/foresee/closest_layout.h"

#include "parallel/foresee/memory_cut.h"
#include "parallel/foresee/short_step.h"

namespace trireme {
namespace {

bool is_smallest(const PlannedJob& layout) {
  const EngineOptions& options = layout.options;
  const int data = layout.num_ranks / (options.pipeline.stages * options.tensor);
  return options.recompute_every == 1 && (data == 1 || options.zero == ZeroStage::kParameters) &&
         options.pipeline.schedule == PipelineSchedule::kOneForwardOneBackward;
}

class ClosestFinder {
 public:
  ClosestFinder(const std::vector<double>& costs, std::int64_t limit_bytes,
                const std::function<void(const EngineOptions&)>& check)
      : costs_(costs), limit_bytes_(limit_bytes), check_(check) {}

  void compare(const PlannedJob& layout) {
    try {
      if (check_) check_(layout.options);
      compare_checked(layout);
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
    }
  }

  const ClosestLayout& closest() const { return closest_; }

 private:
  void compare_checked(const PlannedJob& layout) {
    EngineOptions own = layout.options;
    PlannedJob brief = short_step(layout, 2 * own.pipeline.stages, Shortened::kNoLonger);
    if (own.pipeline.stages > 1 && own.pipeline.cut.empty()) own.pipeline.cut = smallest_cut(brief);
    own.planning = Planning::kOwnRank;
    if (closest_.job) {  // a short step that needs more is enough
      brief.options.pipeline.cut = own.pipeline.cut;
      brief.options.planning = Planning::kOwnRank;
      if (largest_peak(brief, brief.options) >= closest_.bytes) return;
    }
    const std::int64_t peak = largest_peak(layout, own);
    if (closest_.job && peak >= closest_.bytes) return;
    closest_ = {.job = layout, .bytes = peak};
    if (peak <= limit_bytes_) closest_.job->options.pipeline.cut = own.pipeline.cut;
  }

  static std::int64_t largest_peak(const PlannedJob& job, const EngineOptions& options) {
    return predict_largest_step(job.blocks, options, job.sample, job.num_ranks).memory.device_peak;
  }

  /// Of the cuts that are tried, the one whose largest stage needs least, in a short step.
  std::vector<int> smallest_cut(const PlannedJob& layout) const {
    const MemoryCut found = cut_within_memory(layout, costs_, limit_bytes_);
    return (found.cut ? *found.cut : found.closest.cut).first_units();
  }

  const std::vector<double>& costs_;
  const std::int64_t limit_bytes_;
  const std::function<void(const EngineOptions&)>& check_;
  ClosestLayout closest_;
};

}  // namespace

ClosestLayout closest_layout(const std::vector<LayoutFamily>& families, const std::vector<double>& costs,
                             std::int64_t limit_bytes,
                             const std::function<void(const EngineOptions&)>& check) {
  ClosestFinder finder(costs, limit_bytes, check);
  for (const bool smallest_only : {true, false}) {
    for (const LayoutFamily& family : families) {
      for (std::size_t i = 0; i < family.shardings.size(); ++i) {
        const PlannedJob layout = family.layout(i);
        if (!smallest_only || is_smallest(layout)) finder.compare(layout);
      }
    }
    if (finder.closest().job) break;
  }
  return finder.closest();
}

}  // namespace trireme

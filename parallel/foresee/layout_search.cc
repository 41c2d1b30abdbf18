#include "parallel/foresee/layout_search.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "parallel/foresee/accumulation_choice.h"
#include "parallel/foresee/layout_bound.h"
#include "parallel/foresee/layout_candidates.h"
#include "parallel/foresee/memory_cut.h"
#include "parallel/foresee/short_step.h"
#include "parallel/layout/block_work.h"
#include "runtime/base/error.h"
#include "runtime/base/for_each_index.h"

namespace trireme {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// A candidate that takes at least `ms`.
struct OpenLayout {
  double ms = 0;
  std::size_t candidate = 0;
  bool is_simulated = false;  // `ms` is its second bound

  /// Equal bounds are in the order of the candidates: the simplest comes first.
  bool operator<(const OpenLayout& other) const {
    return std::tie(ms, candidate) < std::tie(other.ms, other.candidate);
  }
};

/// The result of trying a candidate.
struct Tried {
  std::optional<OpenLayout> open;     // with its second bound
  std::optional<FoundLayout> layout;  // if it fits and is fast enough
  bool is_too_large = false;
  std::exception_ptr failure;
};

/// True for an error with which an engine or a cluster refuses a layout.
bool is_refusal(const Error& error) {
  return error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kInvalidInput;
}

/// A step that needs no more memory than the job's.
PlannedJob brief_of(const PlannedJob& job) {
  return short_step(job, 2 * job.options.layout.pipeline, Shortened::kNoLonger);
}

std::optional<std::int64_t> peak_within(std::int64_t limit, const PlannedJob& job) {
  const auto prediction = predict_within(limit, job.blocks, job.options, job.sample, job.num_ranks);
  return prediction ? std::optional(prediction->memory.device_peak) : std::nullopt;
}

/// True for layouts that differ only in recompute and in sharing with data ranks, without effect. For
/// example, a model may have nothing to recompute selectively, and ZeRO-2 has nothing to shard if gradients
/// are kept whole.
bool are_twins(const FoundLayout& a, const FoundLayout& b) {
  const auto axes = [](const EngineOptions& options) {
    const Layout& l = options.layout;
    return std::tuple(l.tensor, l.sequence, options.micro_batch, l.pipeline, l.schedule, l.chunks);
  };
  constexpr double kRounding = 1e-9;
  return axes(a.job.options) == axes(b.job.options) && a.peak_bytes == b.peak_bytes &&
         std::abs(a.price.step_ms - b.price.step_ms) <= kRounding * b.price.step_ms;
}

/// True for a layout that shards and recomputes as much as possible.
bool is_smallest(const PlannedJob& job) {
  const Layout& layout = job.options.layout;
  return layout.recomputes_segments() && layout.schedule != PipelineSchedule::kZeroBubbleH1 &&
         (layout.data_ranks(job.num_ranks) == 1 || layout.zero == ZeroStage::kParameters);
}

class LayoutSearcher {
 public:
  LayoutSearcher(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device,
                 std::int64_t limit_bytes, const LayoutSearchOptions& options)
      : job_(job),
        cluster_(cluster),
        device_(device),
        limit_bytes_(limit_bytes),
        options_(options),
        costs_(work_costs(*job.blocks, job.sample)) {}

  FoundLayouts run() {
    peak_of(job_, cluster_, device_);  // refuses a precision
    list_candidates();
    try_all();
    if (found_.best.empty() && found_.num_too_large > 0) find_closest();
    // It would fit, so the layouts were refused for another reason than memory.
    const bool was_refused = found_.num_too_large == 0 || found_.closest_bytes <= limit_bytes_;
    if (found_.best.empty() && was_refused && refusal_) std::rethrow_exception(refusal_);
    return std::move(found_);
  }

 private:
  void list_candidates() {
    candidates_ = layout_candidates(job_, options_.open, options_.varies_micro_batch);
    set_block_bounds(candidates_, job_, cluster_, device_);
    found_.num_candidates = static_cast<int>(candidates_.size());
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      open_.insert({.ms = candidates_[i].bound_ms, .candidate = i});
    }
  }

  /// A candidate must be faster than this to be among the best.
  double limit_ms() const {
    return found_.best.size() < options_.most ? kNoLimit : found_.best.back().price.step_ms;
  }

  bool may_be_best(const OpenLayout& layout) const { return kSureShare * layout.ms < limit_ms(); }

  /// Removes the open layouts that may be fastest.
  std::vector<OpenLayout> next_batch() {
    constexpr std::size_t kBatch = 16;
    std::vector<OpenLayout> batch;
    while (batch.size() < kBatch && !open_.empty() && may_be_best(*open_.begin())) {
      batch.push_back(open_.extract(open_.begin()).value());
    }
    return batch;
  }

  /// [Note: search by threads] Several threads try a batch of the layouts that may be fastest. The results
  /// are then added in the batch's order, so neither the found layouts nor the counts depend on the number of
  /// threads.
  void try_all() {
    for (auto batch = next_batch(); !batch.empty(); batch = next_batch()) {
      if (options_.on_progress) options_.on_progress(progress(batch));
      std::vector<Tried> tried(batch.size());
      for_each_index(batch.size(), options_.threads, [&](std::size_t i) { tried[i] = try_open(batch[i]); });
      for (Tried& one : tried) add(std::move(one));
    }
  }

  SearchProgress progress(const std::vector<OpenLayout>& batch) const {
    const auto num_later =
        std::ranges::count_if(open_, [&](const auto& layout) { return may_be_best(layout); });
    return {.num_open = batch.size() + static_cast<std::size_t>(num_later),
            .open_ms = batch[0].ms,
            .num_timed = found_.num_timed,
            .num_too_large = found_.num_too_large,
            .best_ms = found_.best.empty() ? 0 : found_.best[0].price.step_ms};
  }

  /// Called by threads; changes nothing.
  Tried try_open(OpenLayout open) const {
    try {
      const PlannedJob layout = candidates_[open.candidate].of(job_);
      if (open.is_simulated) return try_layout(layout);
      PlannedJob fastest = layout;
      fastest.options = choices_of(layout).front();
      if (options_.check) options_.check(fastest.options);
      open.is_simulated = true;
      open.ms = std::max(open.ms, simulated_bound_ms(fastest, cluster_, device_));
      return {.open = open};
    } catch (...) {
      return {.failure = std::current_exception()};
    }
  }

  std::vector<EngineOptions> choices_of(const PlannedJob& layout) const {
    return accumulation_choices(layout.options, options_.open, layout.num_ranks);
  }

  /// [Note: ways to accumulate] A choice that keeps less of a step sends more, and takes longer (at most 1 %
  /// less was seen, if ranks have unequal numbers of micro-batches). So it is tried if the choices that keep
  /// the same and more do not fit. Of the two choices that keep either parameters or gradients, either may be
  /// the faster one. As in training, a choice that keeps more than necessary may use 7/8 of the memory.
  Tried try_layout(const PlannedJob& layout) const {
    Tried tried;
    std::vector<Layout> settled;  // choices that fit, or are too slow
    PlannedJob job = layout;
    const auto choices = choices_of(layout);
    for (const EngineOptions& choice : choices) {
      const auto keeps_more = [&](const Layout& other) { return other.keeps_all_of(choice.layout); };
      if (std::ranges::any_of(settled, keeps_more)) continue;
      job.options = choice;
      if (options_.check) options_.check(choice);
      const bool is_last = &choice == &choices.back();
      const std::int64_t limit = is_last || options_.uses_whole_limit ? limit_bytes_ : limit_bytes_ / 8 * 7;
      const bool may_be_cut =
          is_last && settled.empty() && choice.layout.pipeline > 1 && choice.layout.cut.empty();
      const double limit_ms = tried.layout ? tried.layout->price.step_ms : this->limit_ms();
      bool is_slow = false;
      std::optional<std::int64_t> peak;
      if (peak_within(limit, brief_of(job))) {
        const PlanPrice price = price_layout(job, cluster_, device_);
        is_slow = price.step_ms >= limit_ms;
        if (!is_slow) peak = peak_within(limit, job);
        if (peak) tried.layout = FoundLayout{.job = job, .price = price, .peak_bytes = *peak};
      }
      if (peak || is_slow) settled.push_back(choice.layout);
      if (may_be_cut && settled.empty()) return try_cut(job);
    }
    tried.is_too_large = settled.empty();
    return tried;
  }

  /// Cuts the stages as training would.
  Tried try_cut(PlannedJob job) const {
    const bool may_fit = may_be_cut_within(brief_of(job), costs_, limit_bytes_);
    const auto cut = may_fit ? cut_within_memory(job, costs_, limit_bytes_).cut : std::nullopt;
    if (!cut) return {.is_too_large = true};
    job.options.layout.cut = cut->first_units();
    return try_layout(job);
  }

  void add(Tried tried) {
    if (tried.open) open_.insert(*tried.open);
    if (tried.open) return;
    if (tried.failure) note_refusal(tried.failure);
    ++(tried.failure ? found_.num_refused : tried.is_too_large ? found_.num_too_large : found_.num_timed);
    if (!tried.layout || tried.layout->price.step_ms >= limit_ms()) return;
    const auto is_twin = [&](const FoundLayout& other) { return are_twins(*tried.layout, other); };
    if (std::ranges::any_of(found_.best, is_twin)) return;  // the simpler one came first
    const auto place = std::ranges::upper_bound(found_.best, tried.layout->price.step_ms, {},
                                                [](const FoundLayout& other) { return other.price.step_ms; });
    found_.best.insert(place, std::move(*tried.layout));
    if (found_.best.size() > options_.most) found_.best.pop_back();
  }

  /// The engine refuses some combinations, and a cluster may lack what one needs. The user only needs to see
  /// the error if no layout is left.
  void note_refusal(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
      refusal_ = failure;
    }
  }

  /// Compares the layouts that shard and recompute most, or all layouts if there are none among these. Each
  /// keeps as little of a step as possible. A short step, which needs no more, rejects most of them.
  void find_closest() {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const bool smallest_only : {true, false}) {
      for (const LayoutCandidate& candidate : candidates_) {
        PlannedJob job = candidate.of(job_);
        job.options = choices_of(job).back();
        if (smallest_only && !is_smallest(job)) continue;
        try {
          if (options_.check) options_.check(job.options);
          const auto peak =
              peak_within(least - 1, brief_of(job)) ? peak_within(least - 1, job) : std::nullopt;
          if (!peak) continue;
          found_.closest = job;
          found_.closest_bytes = least = *peak;
        } catch (const Error&) {
          note_refusal(std::current_exception());
        }
      }
      if (found_.closest) return;
    }
  }

  const PlannedJob& job_;
  const Cluster& cluster_;
  const ClusterDevice& device_;
  const std::int64_t limit_bytes_;
  const LayoutSearchOptions& options_;
  const std::vector<double> costs_;  // per block, for cuts
  std::vector<LayoutCandidate> candidates_;
  std::set<OpenLayout> open_;
  FoundLayouts found_;
  std::exception_ptr refusal_;  // the last refusal
};

}  // namespace

FoundLayouts search_layouts(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device,
                            std::int64_t limit_bytes, const LayoutSearchOptions& options) {
  TRIREME_CHECK(options.most >= 1, "a search of layouts for the best {}: it takes 1 or more", options.most);
  return LayoutSearcher(job, cluster, device, limit_bytes, options).run();
}

}  // namespace trireme

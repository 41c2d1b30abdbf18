#include "parallel/foresee/layout_search.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "parallel/foresee/block_work.h"
#include "parallel/foresee/layout_bounds.h"
#include "parallel/foresee/memory_cut.h"
#include "parallel/foresee/short_step.h"
#include "runtime/base/for_each_index.h"

namespace trireme {
namespace {

constexpr std::size_t kBatch = 16;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// What is known of the time of a layout, or of a family of them.
enum class Known { kBlocks, kPipeline, kStep, kSimulated, kRoom, kPrice };

/// A family, or a layout of one: it takes `ms` or more.
struct Candidate {
  double ms = 0;
  Known known = Known::kBlocks;
  std::size_t family = 0, sharding = 0;
  PipelineBound pipeline = {};
  std::vector<double> choice_ms = {};  // by way to accumulate; kNoLimit: does not fit
  PlanPrice price = {};                // of the first that may fit

  /// Those with equal times in the order of the layouts.
  bool operator<(const Candidate& other) const {
    return std::tie(ms, family, sharding, known) <
           std::tie(other.ms, other.family, other.sharding, other.known);
  }
};

/// What became of a candidate: nothing, where its memory is too large.
struct Tried {
  std::vector<Candidate> next;
  std::optional<FoundLayout> layout;
  bool is_too_large = false;
  std::exception_ptr failure;
};

/// The one with less is simpler.
auto complexity(const EngineOptions& options) {
  return std::tuple(options.recompute_every, options.recompute, options.zero, options.exchange,
                    options.keep_gathered, options.accumulate_unsharded);
}

/// True of layouts that recompute or share with data ranks in another way, to no effect: a model may have
/// nothing to recompute selectively, and gradients that are kept whole all the same leave ZeRO-2 nothing.
bool are_twins(const FoundLayout& a, const FoundLayout& b) {
  const auto axes = [](const EngineOptions& options) {
    const PipelineOptions& pipeline = options.pipeline;
    return std::tuple(options.tensor, options.sequence, options.micro_batch, pipeline.stages,
                      pipeline.schedule, pipeline.chunks);
  };
  constexpr double kRounding = 1e-9;
  return axes(a.job.options) == axes(b.job.options) && a.peak_bytes == b.peak_bytes &&
         std::abs(a.price.step_ms - b.price.step_ms) <= kRounding * b.price.step_ms;
}

class LayoutSearcher {
 public:
  LayoutSearcher(const Cluster& cluster, const ClusterDevice& device, std::int64_t limit_bytes,
                 const LayoutSearchOptions& options)
      : cluster_(cluster),
        device_(device),
        limit_bytes_(limit_bytes),
        options_(options),
        bounds_(cluster, device) {}

  FoundLayouts run(const PlannedJob& job) {
    peak_of(job, cluster_, device_);  // refuses a precision
    costs_ = work_costs(*job.blocks, job.sample);
    families_ = layouts_of(job, options_.fixed, options_.varies_micro_batch);
    for (const LayoutFamily& family : families_)
      found_.num_candidates += static_cast<int>(family.shardings.size());
    bounds_.prepare(families_, options_.threads);
    for (std::size_t i = 0; i < families_.size(); ++i) {
      candidates_.insert({.ms = bounds_.blocks_ms(families_[i].job), .family = i});
    }
    try_all();
    if (found_.best.empty() && found_.num_too_large == 0 && refusal_) std::rethrow_exception(refusal_);
    if (found_.best.empty()) find_closest();
    // It would fit: something else than memory is missing.
    if (found_.closest && found_.closest_bytes <= limit_bytes_ && refusal_) std::rethrow_exception(refusal_);
    return std::move(found_);
  }

 private:
  /// Of a way to accumulate, as training has it.
  std::int64_t limit_of(std::size_t choice, std::size_t num_choices) const {
    const bool is_last = choice + 1 == num_choices;
    return is_last || options_.uses_whole_limit ? limit_bytes_ : limit_bytes_ / 8 * 7;
  }

  /// Nothing where a rank needs more than the limit, or the engine has no such layout. Of the ways to
  /// accumulate the first that fits; where the fastest cut into stages needs more than the limit, the fastest
  /// one that fits.
  std::optional<std::int64_t> peak_within(PlannedJob& layout) const {
    PlannedJob tried = bounds_.with_cut(layout);
    const auto predict = [&](std::int64_t limit) {
      return predict_within(limit, tried.blocks, tried.options, tried.sample, tried.num_ranks);
    };
    std::optional<StepPrediction> prediction;
    const auto choices = accumulation_choices(tried.options, options_.accumulation, layout.num_ranks);
    for (std::size_t i = 0; i < choices.size() && !prediction; ++i) {
      tried.options = choices[i];
      prediction = predict(limit_of(i, choices.size()));
    }
    std::vector<int> cut = layout.options.pipeline.cut;
    if (!prediction && layout.options.pipeline.stages > 1 && cut.empty()) {
      const PlannedJob brief = short_step(tried, 2 * tried.options.pipeline.stages, Shortened::kNoLonger);
      if (!likely_cut_within_memory(brief, costs_, limit_bytes_)) return std::nullopt;  // in less time
      const auto found = likely_cut_within_memory(tried, costs_, limit_bytes_);
      if (!found) return std::nullopt;
      cut = tried.options.pipeline.cut = found->first_units();
      prediction = predict(limit_bytes_);
    }
    if (!prediction) return std::nullopt;
    layout.options = tried.options;
    layout.options.pipeline.cut = cut;
    return prediction->memory.device_peak;
  }

  /// What the best of them must be faster than.
  double limit_ms() const {
    return found_.best.size() < options_.most ? kNoLimit : found_.best.back().price.step_ms;
  }

  PlanPrice price_of(const PlannedJob& layout) const {
    return price_layout(bounds_.with_cut(layout), cluster_, device_);
  }

  /// The layouts of a family, all with the bound of its pipeline.
  Tried spread(const Candidate& family) const {
    Candidate layout{.ms = family.ms, .known = Known::kPipeline, .family = family.family};
    try {
      layout.pipeline = bounds_.pipeline(families_[family.family].job);
      layout.ms = std::max(layout.ms, layout.pipeline.ms);
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;  // the others may have what its first layout lacks
    }
    Tried tried;
    for (; layout.sharding < families_[family.family].shardings.size(); ++layout.sharding) {
      tried.next.push_back(layout);
    }
    return tried;
  }

  /// Notes for each way to accumulate that still may fit how long it takes at the least.
  template <class Bound>
  Tried bound_choices(Candidate candidate, Known known, const Bound& bound) const {
    PlannedJob layout = families_[candidate.family].layout(candidate.sharding);
    const auto choices = accumulation_choices(layout.options, options_.accumulation, layout.num_ranks);
    candidate.choice_ms.resize(choices.size(), candidate.ms);
    double least_ms = kNoLimit;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      double& ms = candidate.choice_ms[i];
      if (ms == kNoLimit) continue;
      layout.options = choices[i];
      ms = std::max(ms, bound(layout, limit_of(i, choices.size()), i + 1 == choices.size()));
      least_ms = std::min(least_ms, ms);
    }
    if (least_ms == kNoLimit) return {.is_too_large = true};
    candidate.ms = least_ms;
    candidate.known = known;
    return {.next = {std::move(candidate)}};
  }

  Tried bound_step(const Candidate& candidate) const {
    const PlannedJob layout = families_[candidate.family].layout(candidate.sharding);
    if (options_.check) options_.check(layout.options);
    const bool exchanges_meanwhile = layout.options.zero >= ZeroStage::kGradients;
    return bound_choices(candidate, exchanges_meanwhile ? Known::kStep : Known::kSimulated,
                         [&](const PlannedJob& one, std::int64_t limit, bool) {
                           // A cut moves what stages need, and hardly changes its sum.
                           const std::int64_t needed = bounds_.needed_bytes(one, candidate.pipeline);
                           return needed / one.options.pipeline.stages > limit
                                      ? kNoLimit
                                      : bounds_.step_ms(one, candidate.pipeline.ms);
                         });
  }

  Tried simulate(const Candidate& candidate) const {
    return bound_choices(candidate, Known::kSimulated, [&](const PlannedJob& one, std::int64_t, bool) {
      return bounds_.simulated_ms(one);
    });
  }

  /// The first that fits is taken: those behind it are not asked for.
  Tried play_short(const Candidate& candidate) const {
    bool one_fits = false;
    return bound_choices(candidate, Known::kRoom,
                         [&](const PlannedJob& one, std::int64_t limit, bool may_be_cut) {
                           if (one_fits) return 0.0;
                           one_fits = bounds_.may_fit(one, limit, may_be_cut);
                           return one_fits ? 0.0 : kNoLimit;
                         });
  }

  /// Of the first that may fit. It takes less time than the memory to the byte, which only those need that
  /// are among the best with it.
  Tried price_first(const Candidate& candidate) const {
    bool is_first = true;
    PlanPrice price;
    Tried tried = bound_choices(candidate, Known::kPrice, [&](const PlannedJob& one, std::int64_t, bool) {
      if (!std::exchange(is_first, false)) return 0.0;
      price = price_of(one);
      return price.step_ms;
    });
    if (!tried.next.empty()) tried.next[0].price = std::move(price);
    return tried;
  }

  /// Whether what peak_within() has found is the layout that the candidate's price is of.
  bool is_priced(const Candidate& candidate, const PlannedJob& found) const {
    const PlannedJob layout = families_[candidate.family].layout(candidate.sharding);
    const auto choices = accumulation_choices(layout.options, options_.accumulation, layout.num_ranks);
    const auto first = std::ranges::find_if(candidate.choice_ms, [](double ms) { return ms < kNoLimit; });
    const EngineOptions& priced = choices[static_cast<std::size_t>(first - candidate.choice_ms.begin())];
    const EngineOptions& options = found.options;
    return priced.accumulate_unsharded == options.accumulate_unsharded &&
           priced.keep_gathered == options.keep_gathered && priced.pipeline.cut == options.pipeline.cut;
  }

  Tried settle(const Candidate& candidate) const {
    PlannedJob layout = families_[candidate.family].layout(candidate.sharding);
    const std::optional<std::int64_t> peak = peak_within(layout);
    if (!peak) return {.is_too_large = true};
    const PlanPrice price = is_priced(candidate, layout) ? candidate.price : price_of(layout);
    return {.layout = FoundLayout{.job = std::move(layout), .price = price, .peak_bytes = *peak}};
  }

  /// Of threads: changes nothing.
  Tried advance(const Candidate& candidate) const {
    try {
      switch (candidate.known) {
        case Known::kBlocks:
          return spread(candidate);
        case Known::kPipeline:
          return bound_step(candidate);
        case Known::kStep:
          return simulate(candidate);
        case Known::kSimulated:
          return play_short(candidate);
        case Known::kRoom:
          return price_first(candidate);
        case Known::kPrice:
          return settle(candidate);
      }
    } catch (...) {
      return {.failure = std::current_exception()};
    }
    return {};
  }

  /// Of twins the simpler one is kept. False where the layout has none.
  bool replaces_twin(const FoundLayout& layout) {
    const auto twin =
        std::ranges::find_if(found_.best, [&](const FoundLayout& other) { return are_twins(layout, other); });
    if (twin == found_.best.end()) return false;
    if (complexity(layout.job.options) < complexity(twin->job.options)) twin->job = layout.job;
    return true;
  }

  void add(Tried tried) {
    if (tried.failure) note_refusal(tried.failure);
    if (tried.is_too_large) ++found_.num_too_large;
    if (tried.layout) ++found_.num_timed;
    for (Candidate& candidate : tried.next) candidates_.insert(std::move(candidate));
    if (tried.layout && replaces_twin(*tried.layout)) return;
    if (!tried.layout || tried.layout->price.step_ms >= limit_ms()) return;
    const auto place = std::ranges::upper_bound(found_.best, tried.layout->price.step_ms, {},
                                                [](const FoundLayout& other) { return other.price.step_ms; });
    found_.best.insert(place, std::move(*tried.layout));
    if (found_.best.size() > options_.most) found_.best.pop_back();
  }

  /// The engine refuses some combinations, and a cluster may lack what one needs: only if none is left does
  /// the user have to know.
  void note_refusal(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
      ++found_.num_refused;
      refusal_ = failure;
    }
  }

  SearchProgress progress() const {
    const double limit = limit_ms();
    const auto is_open = [&](const Candidate& candidate) { return candidate.ms < limit; };
    return {.num_open = static_cast<std::size_t>(std::ranges::count_if(candidates_, is_open)),
            .open_ms = candidates_.begin()->ms,
            .num_timed = found_.num_timed,
            .num_too_large = found_.num_too_large,
            .best_ms = found_.best.empty() ? 0 : found_.best[0].price.step_ms};
  }

  /// [Note: search by threads] Of those that may be fastest a batch at a time goes a step further, by several
  /// threads, and is then taken in its order. So what is found, and what is counted, does not depend on the
  /// number of threads.
  void try_all() {
    while (!candidates_.empty() && candidates_.begin()->ms < limit_ms()) {
      if (options_.on_progress) options_.on_progress(progress());
      std::vector<Candidate> batch;
      while (batch.size() < kBatch && !candidates_.empty() && candidates_.begin()->ms < limit_ms()) {
        batch.push_back(candidates_.extract(candidates_.begin()).value());
      }
      std::vector<Tried> tried(batch.size());
      for_each_index(batch.size(), options_.threads, [&](std::size_t i) { tried[i] = advance(batch[i]); });
      for (Tried& one : tried) add(std::move(one));
    }
  }

  /// Of the layouts that shard and recompute most; of all where none of these is left to search.
  void find_closest() {
    const auto compare_all = [&](bool smallest_only) {
      for (const LayoutFamily& family : families_) {
        for (std::size_t i = 0; i < family.shardings.size(); ++i) {
          const PlannedJob layout = family.layout(i);
          if (!smallest_only || is_smallest(layout)) compare_closest(layout);
        }
      }
    };
    compare_all(true);
    if (!found_.closest) compare_all(false);
  }

  static bool is_smallest(const PlannedJob& layout) {
    const EngineOptions& options = layout.options;
    const int data = layout.num_ranks / (options.pipeline.stages * options.tensor);
    return options.recompute_every == 1 && (data == 1 || options.zero == ZeroStage::kParameters) &&
           options.pipeline.schedule == PipelineSchedule::kOneForwardOneBackward;
  }

  /// Of the cuts that are tried, the one whose largest stage needs least, in a short step.
  std::vector<int> smallest_cut(const PlannedJob& layout) const {
    const MemoryCut found = cut_within_memory(layout, costs_, limit_bytes_);
    return (found.cut ? *found.cut : found.closest.cut).first_units();
  }

  void compare_closest(const PlannedJob& layout) {
    try {
      if (options_.check) options_.check(layout.options);
      EngineOptions own = layout.options;
      PlannedJob brief = short_step(layout, 2 * own.pipeline.stages, Shortened::kNoLonger);
      if (own.pipeline.stages > 1 && own.pipeline.cut.empty()) own.pipeline.cut = smallest_cut(brief);
      own.planning = Planning::kOwnRank;
      if (found_.closest) {  // a short step that needs more is enough
        brief.options.pipeline.cut = own.pipeline.cut;
        brief.options.planning = Planning::kOwnRank;
        const StepPrediction least =
            predict_largest_step(brief.blocks, brief.options, brief.sample, brief.num_ranks);
        if (least.memory.device_peak >= found_.closest_bytes) return;
      }
      const std::int64_t peak =
          predict_largest_step(layout.blocks, own, layout.sample, layout.num_ranks).memory.device_peak;
      if (found_.closest && peak >= found_.closest_bytes) return;
      found_.closest = layout;
      found_.closest_bytes = peak;
      if (peak > limit_bytes_ || own.pipeline.cut == layout.options.pipeline.cut) return;
      found_.closest->options.pipeline.cut = own.pipeline.cut;  // it was not likely to fit
      PlannedJob fits = *found_.closest;
      const std::optional<std::int64_t> its_peak = peak_within(fits);
      if (!its_peak) return;
      const PlanPrice price = price_of(fits);
      add({.layout = FoundLayout{.job = std::move(fits), .price = price, .peak_bytes = *its_peak}});
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
    }
  }

  const Cluster& cluster_;
  const ClusterDevice& device_;
  const std::int64_t limit_bytes_;
  const LayoutSearchOptions& options_;
  std::vector<double> costs_;  // of each block, for cuts
  LayoutBounds bounds_;
  std::vector<LayoutFamily> families_;
  std::set<Candidate> candidates_;
  FoundLayouts found_;
  std::exception_ptr refusal_;  // the last
};

}  // namespace

FoundLayouts search_layouts(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device,
                            std::int64_t limit_bytes, const LayoutSearchOptions& options) {
  TRIREME_CHECK(options.most >= 1, "a search of layouts for the best {}: it takes 1 or more", options.most);
  return LayoutSearcher(cluster, device, limit_bytes, options).run(job);
}

}  // namespace trireme

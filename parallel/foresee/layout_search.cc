#include "parallel/foresee/layout_search.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "parallel/layout/block_work.h"
#include "parallel/foresee/closest_layout.h"
#include "parallel/foresee/layout_bounds.h"
#include "parallel/foresee/layout_twins.h"
#include "parallel/foresee/memory_cut.h"
#include "parallel/foresee/short_step.h"
#include "runtime/base/for_each_index.h"

namespace trireme {
namespace {

constexpr std::size_t kBatch = 16;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// The stage of knowledge about a candidate's time.
enum class Known { kBlocks, kPipeline, kStep, kSimulated, kRoom, kPrice };

/// A family, or a layout with one choice of accumulation. It takes at least `ms`.
struct Candidate {
  double ms = 0;
  Known known = Known::kBlocks;
  std::size_t family = 0, sharding = 0, accumulation = 0;
  PipelineBound pipeline = {};
  PlanPrice price = {};  // with the cut of the bounds

  /// Orders by time. Equal times are in the order of the layouts, and the one that sends less comes first.
  bool operator<(const Candidate& other) const {
    return std::tie(ms, family, sharding, accumulation, known) <
           std::tie(other.ms, other.family, other.sharding, other.accumulation, other.known);
  }
};

/// State of a layout's choices of accumulation.
struct LayoutState {
  std::vector<bool> is_opened, is_closed;  // by choice; closed: it does not fit, or the engine refuses it
  bool is_found = false, is_too_large = false;
};

/// The result of advancing a candidate.
struct Tried {
  std::vector<Candidate> next;
  std::optional<FoundLayout> layout;
  bool is_too_large = false;
  std::exception_ptr failure;
};

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
    families_ = layouts_of(job, options_.open, options_.varies_micro_batch);
    for (const LayoutFamily& family : families_)
      found_.num_candidates += static_cast<int>(family.shardings.size());
    bounds_.prepare(families_, options_.threads);
    for (std::size_t i = 0; i < families_.size(); ++i) {
      candidates_.insert({.ms = bounds_.blocks_ms(families_[i].job), .family = i});
    }
    try_all();
    if (found_.best.empty() && found_.num_too_large == 0 && refusal_) std::rethrow_exception(refusal_);
    if (found_.best.empty()) find_closest();
    // It would fit, so the layouts were refused for another reason than memory.
    if (found_.closest && found_.closest_bytes <= limit_bytes_ && refusal_) std::rethrow_exception(refusal_);
    return std::move(found_);
  }

 private:
  std::vector<EngineOptions> choices_of(const PlannedJob& layout) const {
    return accumulation_choices(layout.options, options_.open, layout.num_ranks);
  }

  /// A layout with a choice of accumulation.
  struct Way {
    PlannedJob job;
    std::int64_t limit = 0;    // as in training
    bool needs_least = false;  // of all choices
  };

  Way way_of(PlannedJob layout, std::size_t accumulation) const {
    const std::vector<EngineOptions> choices = choices_of(layout);
    const bool is_last = accumulation + 1 == choices.size();
    layout.options = choices[accumulation];
    return {.job = std::move(layout),
            .limit = is_last || options_.uses_whole_limit ? limit_bytes_ : limit_bytes_ / 8 * 7,
            .needs_least = is_last};
  }

  Way way_of(const Candidate& candidate) const {
    return way_of(families_[candidate.family].layout(candidate.sharding), candidate.accumulation);
  }

  /// The predicted peak, or empty if a rank needs more than the limit or the engine has no such layout. If
  /// the layout does not fit with its fastest cut into stages, nor with another choice of accumulation, sets
  /// `way` as training would: to the fastest cut that fits, and the first choice that fits with it.
  std::optional<std::int64_t> peak_within(Way& way) const {
    const PlannedJob uncut = way.job;
    const auto predict = [&] {
      const PlannedJob job = bounds_.with_cut(way.job);
      return predict_within(way.limit, job.blocks, job.options, job.sample, job.num_ranks);
    };
    std::optional<StepPrediction> prediction = predict();
    const Layout& axes = uncut.options.layout;
    if (!prediction && way.needs_least && axes.pipeline > 1 && axes.cut.empty()) {
      const PlannedJob fastest = bounds_.with_cut(uncut);
      const PlannedJob brief = short_step(fastest, 2 * axes.pipeline, Shortened::kNoLonger);
      if (!likely_cut_within_memory(brief, costs_, limit_bytes_)) return std::nullopt;  // faster
      const auto found = likely_cut_within_memory(fastest, costs_, limit_bytes_);
      if (!found) return std::nullopt;
      PlannedJob cut = uncut;
      cut.options.layout.cut = found->first_units();
      const std::size_t num_ways = choices_of(cut).size();
      for (std::size_t i = 0; i < num_ways && !prediction; ++i) {
        way = way_of(cut, i);
        prediction = predict();
      }
    }
    if (!prediction) return std::nullopt;
    return prediction->memory.device_peak;
  }

  /// A candidate must be faster than this to be among the best.
  double limit_ms() const {
    return found_.best.size() < options_.most ? kNoLimit : found_.best.back().price.step_ms;
  }

  PlanPrice price_of(const PlannedJob& layout) const {
    return price_layout(bounds_.with_cut(layout), cluster_, device_);
  }

  /// True if, by its bound, the layout may be among the best.
  bool may_be_best(const Candidate& candidate) const {
    const double share = candidate.known == Known::kPrice ? 1.0 : kSureShare;
    return share * candidate.ms < limit_ms();
  }

  /// The layouts of a family, all with the bound of its pipeline.
  Tried spread(const Candidate& family) const {
    Candidate layout{.ms = family.ms, .known = Known::kPipeline, .family = family.family};
    try {
      layout.pipeline = bounds_.pipeline(families_[family.family].job);
      layout.ms = std::max(layout.ms, layout.pipeline.ms);
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;  // other shardings may have what the first one lacks
    }
    Tried tried;
    for (; layout.sharding < families_[family.family].shardings.size(); ++layout.sharding) {
      tried.next.push_back(layout);
    }
    return tried;
  }

  static Tried known_now(Candidate candidate, Known known, double ms) {
    candidate.known = known;
    candidate.ms = std::max(candidate.ms, ms);
    return {.next = {std::move(candidate)}};
  }

  Tried bound_step(const Candidate& candidate) const {
    const Way way = way_of(candidate);
    const EngineOptions& options = way.job.options;
    if (options_.check) options_.check(options);
    if (!may_be_cut_within(bounds_.needed_bytes(way.job, candidate.pipeline), way.limit))
      return {.is_too_large = true};
    const double ms = bounds_.step_ms(way.job, candidate.pipeline.ms);
    const bool exchanges_meanwhile = options.layout.zero >= ZeroStage::kGradients;
    return known_now(candidate, exchanges_meanwhile ? Known::kStep : Known::kSimulated, ms);
  }

  Tried simulate(const Candidate& candidate) const {
    return known_now(candidate, Known::kSimulated, bounds_.simulated_ms(way_of(candidate).job));
  }

  Tried play_short(const Candidate& candidate) const {
    const Way way = way_of(candidate);
    if (!bounds_.may_fit(way.job, way.limit, way.needs_least)) return {.is_too_large = true};
    return known_now(candidate, Known::kRoom, candidate.ms);
  }

  /// A simulation is faster than an exact memory prediction, which only layouts among the best then need.
  Tried price(Candidate candidate) const {
    candidate.price = price_of(way_of(candidate).job);
    candidate.ms = candidate.price.step_ms;
    return known_now(candidate, Known::kPrice, candidate.ms);
  }

  Tried settle(const Candidate& candidate) const {
    Way way = way_of(candidate);
    const std::vector<int> cut = way.job.options.layout.cut;
    const std::optional<std::int64_t> peak = peak_within(way);
    if (!peak) return {.is_too_large = true};
    const bool is_priced = way.job.options.layout.cut == cut;
    const PlanPrice price = is_priced ? candidate.price : price_of(way.job);
    return {.layout = FoundLayout{.job = std::move(way.job), .price = price, .peak_bytes = *peak}};
  }

  /// Called by threads; changes nothing.
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
          return price(candidate);
        case Known::kPrice:
          return settle(candidate);
      }
    } catch (...) {
      return {.failure = std::current_exception()};
    }
    return {};
  }

  /// Keeps the simpler of two twins. Returns false if the layout has no twin.
  bool replaces_twin(const FoundLayout& layout) {
    const auto twin =
        std::ranges::find_if(found_.best, [&](const FoundLayout& other) { return are_twins(layout, other); });
    if (twin == found_.best.end()) return false;
    if (is_simpler(layout.job.options.layout, twin->job.options.layout)) twin->job = layout.job;
    return true;
  }

  /// Counts the layout once it is found, or once none of its choices of accumulation is open.
  void add(const Candidate& candidate, Tried tried) {
    for (Candidate& next : tried.next) candidates_.insert(std::move(next));
    if (tried.failure) note_refusal(tried.failure);
    if (!tried.failure && !tried.is_too_large && !tried.layout) return;
    LayoutState& state = states_[{candidate.family, candidate.sharding}];
    if (state.is_found) return;  // with a faster choice
    state.is_too_large |= tried.is_too_large;
    if (tried.layout) {
      state.is_found = true;
      ++found_.num_timed;
      add_found(std::move(*tried.layout));
    } else if (!open_next_ways(candidate, state)) {
      ++(state.is_too_large ? found_.num_too_large : found_.num_refused);
    }
  }

  /// [Note: ways to accumulate] A choice that keeps less of a step sends more, and takes longer (at most 1 %
  /// less was seen, if ranks have unequal numbers of micro-batches). So it is tried once the choices that
  /// keep the same and more do not fit. Of the two choices that keep either parameters or gradients, either
  /// may be the faster one. Returns false if no choice is open.
  bool open_next_ways(const Candidate& candidate, LayoutState& state) {
    const std::vector<EngineOptions> choices =
        choices_of(families_[candidate.family].layout(candidate.sharding));
    state.is_opened.resize(choices.size());
    state.is_closed.resize(choices.size());
    state.is_opened[0] = state.is_closed[candidate.accumulation] = true;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      bool may_be_best = !state.is_opened[i];
      for (std::size_t j = 0; j < i; ++j) {
        may_be_best &= state.is_closed[j] || !choices[j].layout.keeps_all_of(choices[i].layout);
      }
      if (!may_be_best) continue;
      state.is_opened[i] = true;
      Candidate next = candidate;
      next.known = Known::kPipeline;
      next.accumulation = i;
      candidates_.insert(std::move(next));
    }
    return state.is_opened != state.is_closed;
  }

  void add_found(FoundLayout layout) {
    if (replaces_twin(layout) || layout.price.step_ms >= limit_ms()) return;
    const auto place = std::ranges::upper_bound(found_.best, layout.price.step_ms, {},
                                                [](const FoundLayout& other) { return other.price.step_ms; });
    found_.best.insert(place, std::move(layout));
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

  SearchProgress progress(const std::vector<Candidate>& batch) const {
    const auto is_open = [&](const Candidate& candidate) { return may_be_best(candidate); };
    const auto num_later = static_cast<std::size_t>(std::ranges::count_if(candidates_, is_open));
    return {.num_open = batch.size() + num_later,
            .open_ms = batch[0].ms,
            .num_timed = found_.num_timed,
            .num_too_large = found_.num_too_large,
            .best_ms = found_.best.empty() ? 0 : found_.best[0].price.step_ms};
  }

  bool is_found(const Candidate& candidate) const {
    const auto state = states_.find({candidate.family, candidate.sharding});
    return candidate.known != Known::kBlocks && state != states_.end() && state->second.is_found;
  }

  std::vector<Candidate> next_batch() {
    std::vector<Candidate> batch;
    while (batch.size() < kBatch && !candidates_.empty()) {
      if (kSureShare * candidates_.begin()->ms >= limit_ms()) break;
      Candidate first = candidates_.extract(candidates_.begin()).value();
      if (may_be_best(first) && !is_found(first)) batch.push_back(std::move(first));  // the limit only falls
    }
    return batch;
  }

  /// [Note: search by threads] Several threads advance a batch of the candidates that may be fastest. The
  /// results are then added in the batch's order, so neither the found layouts nor the counts depend on the
  /// number of threads.
  void try_all() {
    for (std::vector<Candidate> batch = next_batch(); !batch.empty(); batch = next_batch()) {
      if (options_.on_progress) options_.on_progress(progress(batch));
      std::vector<Tried> tried(batch.size());
      for_each_index(batch.size(), options_.threads, [&](std::size_t i) { tried[i] = advance(batch[i]); });
      for (std::size_t i = 0; i < batch.size(); ++i) add(batch[i], std::move(tried[i]));
    }
  }

  /// Stores the layout that needs least. If it fits after all, with a cut that seemed unlikely, adds it to
  /// the found ones.
  void find_closest() {
    const ClosestLayout closest = closest_layout(families_, costs_, options_.open, options_.check);
    if (!closest.job) return;
    found_.closest = closest.job;
    found_.closest_bytes = closest.bytes;
    if (closest.bytes <= limit_bytes_) settle_closest(*closest.job);
  }

  void settle_closest(const PlannedJob& layout) {
    try {
      for (std::size_t i = 0; i < choices_of(layout).size(); ++i) {
        Way way = way_of(layout, i);
        const std::optional<std::int64_t> peak = peak_within(way);
        if (!peak) continue;
        const PlanPrice price = price_of(way.job);
        add_found({.job = std::move(way.job), .price = price, .peak_bytes = *peak});
        ++found_.num_timed;
        return;
      }
    } catch (const Error&) {
      note_refusal(std::current_exception());
    }
  }

  const Cluster& cluster_;
  const ClusterDevice& device_;
  const std::int64_t limit_bytes_;
  const LayoutSearchOptions& options_;
  std::vector<double> costs_;  // per block, for cuts
  LayoutBounds bounds_;
  std::vector<LayoutFamily> families_;
  std::set<Candidate> candidates_;
  std::map<std::pair<std::size_t, std::size_t>, LayoutState> states_;  // by family and sharding
  FoundLayouts found_;
  std::exception_ptr refusal_;  // the last refusal
};

}  // namespace

FoundLayouts search_layouts(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device,
                            std::int64_t limit_bytes, const LayoutSearchOptions& options) {
  TRIREME_CHECK(options.most >= 1, "a search of layouts for the best {}: it takes 1 or more", options.most);
  return LayoutSearcher(cluster, device, limit_bytes, options).run(job);
}

}  // namespace trireme

#include "parallel/foresee/layout_search.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "parallel/foresee/block_work.h"
#include "parallel/foresee/memory_cut.h"
#include "parallel/foresee/step_price.h"
#include "runtime/base/error.h"
#include "runtime/base/for_each_index.h"

namespace trireme {
namespace {

struct Candidate {
  PlannedJob job;
  double bound_ms = 0;
  std::int64_t state_bytes = 0;  // at the least, of the rank that has most
};

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr std::size_t kBatch = 16;

bool is_refusal(const Error& error) {
  return error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kInvalidInput;
}

/// What became of a candidate. Nothing of it: it is slower than the best, whether it fits or not.
struct Tried {
  std::optional<FoundLayout> layout;
  bool is_too_large = false;
  std::exception_ptr failure;
};

class LayoutSearcher {
 public:
  LayoutSearcher(const Cluster& cluster, const ClusterDevice& device, std::int64_t limit_bytes,
                 const LayoutSearchOptions& options)
      : cluster_(cluster), device_(device), limit_bytes_(limit_bytes), options_(options) {}

  FoundLayouts run(const PlannedJob& job) {
    peak_of(job, cluster_, device_);  // refuses a precision
    costs_ = work_costs(*job.blocks, job.sample);
    std::vector<Candidate> candidates;
    for (PlannedJob& layout : layouts_of(job, options_.fixed, options_.varies_micro_batch)) {
      const double bound = bound_ms(layout);
      const std::int64_t state = state_bytes(layout);
      candidates.push_back({std::move(layout), bound, state});
    }
    std::ranges::stable_sort(candidates, {}, &Candidate::bound_ms);
    try_all(candidates);
    found_.num_candidates = static_cast<int>(candidates.size());
    if (found_.best.empty() && found_.num_too_large == 0 && refusal_) std::rethrow_exception(refusal_);
    if (found_.best.empty()) find_closest(candidates);
    // It would fit: something else than memory is missing.
    if (found_.closest && found_.closest_bytes <= limit_bytes_ && refusal_) std::rethrow_exception(refusal_);
    return std::move(found_);
  }

 private:
  /// Milliseconds of each block, forward and backward of one micro-batch, with what its tensor ranks exchange
  /// in them.
  const std::vector<double>& block_ms(const PlannedJob& layout) {
    const EngineOptions& options = layout.options;
    std::vector<double>& times = block_ms_[{options.tensor, options.micro_batch, options.recompute_every,
                                            static_cast<int>(options.recompute), options.sequence}];
    if (!times.empty()) return times;
    PlannedJob alone = layout;
    alone.num_ranks = options.tensor;
    alone.options.global_batch = options.micro_batch;
    alone.options.pipeline = {};
    alone.options.zero = ZeroStage::kNone;
    alone.options.hosts = hosts_of(alone.num_ranks, alone.num_ranks);
    const StepPrice price(alone, cluster_, device_);
    times.assign(layout.blocks->size(), 0);
    alone.options.planning = Planning::kOwnRank;
    const StepPlan plan = engine_on_meta(alone)->plan();
    for (const Action& action : plan.ranks[0].actions) {
      const bool is_exchange = is_tensor_call(action.kind);
      if (!computes(action.kind) && !is_exchange) continue;
      // The last stage keeps its last segment, which may begin earlier than that of all stages in one.
      const bool may_be_kept = action.unit + options.recompute_every >= std::ssize(times);
      if (action.kind == ActionKind::kRecompute && may_be_kept) continue;
      const ActionTime time = price.of({}, action);
      times[static_cast<std::size_t>(action.unit)] +=
          time.compute_ms + (is_exchange ? time.exchange_ms.value_or(0) : 0);
    }
    return times;
  }

  /// What the rank that has most to do computes, after the chunks before its first one have run a micro-batch
  /// and before they run its backward. (Of zb-h1 a third: weight gradients wait.)
  double bound_ms(const PlannedJob& layout) {
    const EngineOptions& options = layout.options;
    const PipelineOptions& pipeline = options.pipeline;
    const auto data = layout.num_ranks / (pipeline.stages * options.tensor);
    const auto rounds = static_cast<double>(rounds_of(options, data));
    const std::vector<double>& times = block_ms(layout);
    if (pipeline.stages == 1) return rounds * std::accumulate(times.begin(), times.end(), 0.0);
    auto cut = cuts_.find({pipeline.stages, pipeline.chunks});
    if (cut == cuts_.end()) {
      const StageMap stages = cut_by_work(*layout.blocks, layout.sample, pipeline.stages, pipeline.chunks);
      cut = cuts_.emplace(std::pair(pipeline.stages, pipeline.chunks), stages).first;
    }
    const std::vector<double> chunks = chunk_costs(cut->second, times);
    const double share = pipeline.schedule == PipelineSchedule::kZeroBubbleH1 ? 1.0 / 3 : 1.0;
    double longest = 0, before = 0;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(pipeline.stages); ++rank) {
      double mine = 0;
      for (std::size_t c = rank; c < chunks.size(); c += static_cast<std::size_t>(pipeline.stages)) {
        mine += chunks[c];
      }
      longest = std::max(longest, share * before + rounds * mine);
      before += chunks[rank];
    }
    return longest;
  }

  /// Of parameters and optimizer, the mean of all stages.
  std::int64_t state_bytes(const PlannedJob& layout) {
    const int stages = layout.options.pipeline.stages;
    const auto key = std::tuple(layout.options.tensor, stages, layout.options.zero);
    const auto known = state_bytes_.find(key);
    if (known != state_bytes_.end()) return known->second;
    PlannedJob whole = layout;  // all stages on one
    whole.num_ranks = layout.num_ranks / stages;
    whole.options.pipeline = {};
    whole.options.global_batch = layout.options.micro_batch * whole.num_ranks / layout.options.tensor;
    whole.options.hosts = hosts_of(whole.num_ranks, whole.num_ranks);
    whole.options.planning = Planning::kOwnRank;
    std::int64_t bytes = 0;  // where it is refused, as the layout will be
    try {
      const MemoryStats made = engine_on_meta(whole)->context().allocator->stats();
      bytes = (made.current.total() - made.current[MemoryCategory::kHost]) / stages;
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
    }
    return state_bytes_[key] = bytes;
  }

  /// Nothing where a rank needs more than the limit, or the engine has no such layout. Where the fastest cut
  /// into stages does, the layout gets the fastest one that fits, as in training.
  std::optional<std::int64_t> peak_within(PlannedJob& layout) const {
    EngineOptions& options = layout.options;
    options = choose_accumulation(layout.blocks, options, options_.accumulation, layout.sample,
                                  layout.num_ranks, limit_bytes_ / 8 * 7);
    const auto predict = [&] {
      return predict_within(limit_bytes_, layout.blocks, options, layout.sample, layout.num_ranks);
    };
    auto prediction = predict();
    if (!prediction && options.pipeline.stages > 1 && options.pipeline.cut.empty()) {
      const auto cut = likely_cut_within_memory(layout, costs_, limit_bytes_);
      if (!cut) return std::nullopt;
      options.pipeline.cut = cut->first_units();
      prediction = predict();
    }
    if (!prediction) return std::nullopt;
    return prediction->memory.device_peak;
  }

  /// What the best of them must be faster than.
  double limit_ms() const {
    return found_.best.size() < options_.most ? kNoLimit : found_.best.back().price.step_ms;
  }

  /// Once there are enough layouts, most are slower than these: their memory is not asked for.
  bool is_slower(const PlannedJob& layout, double limit_ms) const {
    if (limit_ms == kNoLimit) return false;
    PlannedJob fastest = layout;
    fastest.options = accumulating_most(layout.options, options_.accumulation, layout.num_ranks);
    return price_layout(fastest, cluster_, device_).step_ms >= limit_ms;
  }

  /// Of threads: changes nothing.
  Tried try_layout(const PlannedJob& candidate, double limit_ms, std::int64_t state_bytes = 0) const {
    try {
      PlannedJob layout = candidate;
      if (options_.check) options_.check(layout.options);
      if (state_bytes > limit_bytes_) return {.is_too_large = true};
      if (is_slower(layout, limit_ms)) return {};
      const std::optional<std::int64_t> peak = peak_within(layout);
      if (!peak) return {.is_too_large = true};
      const PlanPrice price = price_layout(layout, cluster_, device_);
      return {.layout = FoundLayout{.job = std::move(layout), .price = price, .peak_bytes = *peak}};
    } catch (...) {
      return {.failure = std::current_exception()};
    }
  }

  void add(Tried tried) {
    if (tried.failure) {
      note_refusal(tried.failure);
    } else if (tried.is_too_large) {
      ++found_.num_too_large;
    } else {
      ++found_.num_timed;
      if (!tried.layout || tried.layout->price.step_ms >= limit_ms()) return;
      const auto place =
          std::ranges::upper_bound(found_.best, tried.layout->price.step_ms, {},
                                   [](const FoundLayout& other) { return other.price.step_ms; });
      found_.best.insert(place, std::move(*tried.layout));
      if (found_.best.size() > options_.most) found_.best.pop_back();
    }
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

  /// [Note: search by threads] Candidates are tried a batch at a time, by several threads, against the
  /// layouts found before it, and then taken in their order. So what is found, and what is counted, does not
  /// depend on the number of threads.
  void try_all(const std::vector<Candidate>& candidates) {
    for (std::size_t first = 0; first < candidates.size(); first += kBatch) {
      const std::size_t size = std::min(kBatch, candidates.size() - first);
      std::vector<Tried> batch(size);
      const double limit = limit_ms();
      for_each_index(size, options_.threads, [&](std::size_t i) {
        if (candidates[first + i].bound_ms < limit)
          batch[i] = try_layout(candidates[first + i].job, limit, candidates[first + i].state_bytes);
      });
      for (std::size_t i = 0; i < size; ++i) {
        if (candidates[first + i].bound_ms >= limit_ms()) return;
        add(std::move(batch[i]));
      }
    }
  }

  /// Of the layouts that shard and recompute most; of all where none of these is left to search.
  void find_closest(const std::vector<Candidate>& candidates) {
    for (const Candidate& candidate : candidates) {
      const EngineOptions& options = candidate.job.options;
      const int data = candidate.job.num_ranks / (options.pipeline.stages * options.tensor);
      const bool is_smallest = options.recompute_every == 1 &&
                               (data == 1 || options.zero == ZeroStage::kParameters) &&
                               options.pipeline.schedule == PipelineSchedule::kOneForwardOneBackward;
      if (is_smallest) compare_closest(candidate.job);
    }
    if (found_.closest) return;
    for (const Candidate& candidate : candidates) compare_closest(candidate.job);
  }

  /// Of the cuts that are tried, the one whose largest stage needs least.
  std::vector<int> smallest_cut(const PlannedJob& layout) const {
    const MemoryCut found = cut_within_memory(layout, costs_, limit_bytes_);
    return (found.cut ? *found.cut : found.closest.cut).first_units();
  }

  void compare_closest(const PlannedJob& layout) {
    try {
      if (options_.check) options_.check(layout.options);
      EngineOptions own = layout.options;
      if (own.pipeline.stages > 1 && own.pipeline.cut.empty()) own.pipeline.cut = smallest_cut(layout);
      own.planning = Planning::kOwnRank;
      const std::int64_t peak =
          predict_largest_step(layout.blocks, own, layout.sample, layout.num_ranks).memory.device_peak;
      if (found_.closest && peak >= found_.closest_bytes) return;
      found_.closest = layout;
      found_.closest_bytes = peak;
      if (peak > limit_bytes_ || own.pipeline.cut == layout.options.pipeline.cut) return;
      found_.closest->options.pipeline.cut = own.pipeline.cut;  // it was not likely to fit
      add(try_layout(*found_.closest, kNoLimit));
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
    }
  }

  const Cluster& cluster_;
  const ClusterDevice& device_;
  const std::int64_t limit_bytes_;
  const LayoutSearchOptions& options_;
  std::vector<double> costs_;  // of each block, for cuts
  // By tensor ranks, micro-batch, recompute_every, recompute and sequence.
  std::map<std::tuple<int, std::int64_t, int, int, bool>, std::vector<double>> block_ms_;
  std::map<std::pair<int, int>, StageMap> cuts_;                         // by stages and chunks
  std::map<std::tuple<int, int, ZeroStage>, std::int64_t> state_bytes_;  // by tensor ranks, stages and zero
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

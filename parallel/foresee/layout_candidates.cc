#include "parallel/foresee/layout_candidates.h"

#include <algorithm>

#include "parallel/foresee/tensor_choice.h"
#include "parallel/mesh/hosts.h"

namespace trireme {
namespace {

std::vector<std::int64_t> micro_batches_of(const PlannedJob& job, bool vary) {
  if (!vary) return {job.options.micro_batch};
  std::vector<std::int64_t> all;
  for (std::int64_t size = 1; size <= std::min<std::int64_t>(job.options.global_batch, 64); size *= 2) {
    if (job.options.global_batch % size == 0) all.push_back(size);
  }
  return all;
}

std::vector<int> divisors_up_to(int most, int number) {
  std::vector<int> all;
  for (int divisor = 1; divisor <= most; ++divisor) {
    if (number % divisor == 0) all.push_back(divisor);
  }
  return all;
}

/// Every combination of the values of the open fields.
std::vector<Layout> combinations(const PlannedJob& job, int tensor_chunks, const OpenFields& open) {
  using enum PipelineSchedule;
  using enum ZeroStage;
  std::vector<Layout> all{job.options.layout};
  const auto vary = [&](bool is_open, auto Layout::*field, const auto& values) {
    if (!is_open) return;
    std::vector<Layout> varied;
    for (const Layout& layout : all) {
      for (const auto value : values) varied.emplace_back(layout).*field = value;
    }
    all = std::move(varied);
  };
  const int num_blocks = static_cast<int>(job.blocks->size());
  vary(open.contains("tensor"), &Layout::tensor, divisors_up_to(tensor_chunks, job.num_ranks));
  vary(open.contains("pipeline"), &Layout::pipeline, divisors_up_to(num_blocks, job.num_ranks));
  vary(open.contains("schedule"), &Layout::schedule,
       std::vector{kOneForwardOneBackward, kZeroBubbleH1, kInterleaved});
  vary(open.contains("chunks"), &Layout::chunks, std::vector{1, 2, 4, 8});
  vary(open.contains("sequence"), &Layout::sequence, std::vector{false, true});
  vary(open.contains("recompute_every"), &Layout::recompute_every, std::vector{0, 1});
  vary(open.contains("recompute"), &Layout::recompute, std::vector{Recompute::kNone, Recompute::kSelective});
  vary(open.contains("zero"), &Layout::zero, std::vector{kNone, kOptimizer, kGradients, kParameters});
  // A job that gives "hierarchical" or "flat" keeps it.
  vary(job.options.layout.exchange == Exchange::kAuto, &Layout::exchange,
       std::vector{Exchange::kAuto, Exchange::kFlat});
  return all;
}

/// True if some choice of accumulation gives the layout exchanges of two levels, if it may choose.
bool may_have_two_levels(PlannedJob job) {
  EngineOptions& options = job.options;
  options.layout.exchange = Exchange::kAuto;
  options.hosts = hosts_like(options.hosts, job.num_ranks);
  for (const bool unsharded : {true, false}) {
    options.layout.accumulate_unsharded = unsharded;
    if (exchange_of(options, job.num_ranks).data_ranks_per_host > 1) return true;
  }
  return false;
}

/// True if the ranks, the blocks and the micro-batches can be divided so.
bool is_possible(const PlannedJob& job, int tensor_chunks) {
  const Layout& layout = job.options.layout;
  if (job.num_ranks % layout.model_ranks() != 0 || tensor_chunks % layout.tensor != 0) return false;
  if (layout.pipeline * layout.chunks > std::ssize(*job.blocks)) return false;
  const std::int64_t rounds = rounds_of(job);
  const bool is_interleaved = layout.schedule == PipelineSchedule::kInterleaved;
  if (rounds == 0 || is_interleaved != (layout.chunks > 1)) return false;
  if (is_interleaved && (layout.pipeline == 1 || rounds < layout.pipeline)) return false;
  return !layout.sequence || can_share_sequence(job, layout.tensor);
}

/// True if a simpler candidate does the same, or nearly so. `given`: the job's layout.
bool is_redundant(const PlannedJob& job, const Layout& given, const OpenFields& open) {
  const Layout& layout = job.options.layout;
  if (open.contains("schedule") && layout.pipeline == 1 && layout.schedule != Layout{}.schedule) return true;
  if (open.contains("zero") && layout.zero != ZeroStage::kNone && layout.data_ranks(job.num_ranks) == 1)
    return true;
  const bool recomputes_twice = layout.recomputes_segments() && layout.recompute != Recompute::kNone;
  if (open.contains("recompute") && open.contains("recompute_every") && recomputes_twice) return true;
  return layout.exchange != given.exchange && !may_have_two_levels(job);
}

}  // namespace

std::int64_t rounds_of(const PlannedJob& job) {
  const EngineOptions& options = job.options;
  const BatchLayout batch{.global_batch = options.global_batch,
                          .micro_batch = options.micro_batch,
                          .data_ranks = options.layout.data_ranks(job.num_ranks)};
  const bool is_whole = options.global_batch % options.micro_batch == 0;
  return is_whole && batch.num_micro_batches() >= batch.data_ranks ? batch.per_rank() : 0;
}

std::vector<LayoutCandidate> layout_candidates(const PlannedJob& job, const OpenFields& open,
                                               bool varies_micro_batch) {
  std::vector<LayoutCandidate> all;
  PlannedJob one = job;
  const int chunks = tensor_chunks(*job.blocks);
  const std::vector<Layout> layouts = combinations(job, chunks, open);
  for (const std::int64_t micro_batch : micro_batches_of(job, varies_micro_batch)) {
    one.options.micro_batch = micro_batch;
    for (const Layout& layout : layouts) {
      one.options.layout = layout;
      if (is_possible(one, chunks) && !is_redundant(one, job.options.layout, open))
        all.push_back({.layout = layout, .micro_batch = micro_batch});
    }
  }
  return all;
}

}  // namespace trireme

#include "parallel/foresee/layout_candidates.h"

#include <algorithm>

#include "parallel/foresee/tensor_choice.h"

namespace trireme {

std::int64_t rounds_of(const EngineOptions& options, int data) {
  const BatchLayout batch{
      .global_batch = options.global_batch, .micro_batch = options.micro_batch, .data_ranks = data};
  const bool is_whole = options.global_batch % options.micro_batch == 0;
  return is_whole && batch.num_micro_batches() >= data ? batch.per_rank() : 0;
}

namespace {

template <class T>
bool allows(const std::optional<T>& fixed, const T& value) {
  return !fixed || *fixed == value;
}

std::vector<PipelineOptions> pipelines_of(const PlannedJob& job, int stages, const FixedLayout& fixed) {
  using enum PipelineSchedule;
  if (stages == 1) {
    const bool wants_chunks = fixed.chunks.value_or(1) > 1 || fixed.schedule == kInterleaved;
    return wants_chunks ? std::vector<PipelineOptions>{} : std::vector{PipelineOptions{}};
  }
  std::vector<PipelineOptions> all;
  const auto add = [&](PipelineSchedule schedule, int chunks) {
    const bool fits = stages * chunks <= std::ssize(*job.blocks);
    if (!fits || !allows(fixed.schedule, schedule) || !allows(fixed.chunks, chunks)) return;
    all.push_back({.stages = stages, .schedule = schedule, .chunks = chunks});
  };
  add(kOneForwardOneBackward, 1);
  add(kZeroBubbleH1, 1);
  if (fixed.schedule == kGpipe) add(kGpipe, 1);
  if (fixed.chunks.value_or(1) > 1) {
    add(kInterleaved, *fixed.chunks);
  } else {
    for (int chunks = 2; chunks <= 8; chunks *= 2) add(kInterleaved, chunks);
  }
  return all;
}

std::vector<std::int64_t> micro_batches_of(const PlannedJob& job, bool vary) {
  if (!vary) return {job.options.micro_batch};
  std::vector<std::int64_t> all;
  for (std::int64_t size = 1; size <= std::min<std::int64_t>(job.options.global_batch, 64); size *= 2) {
    if (job.options.global_batch % size == 0) all.push_back(size);
  }
  return all;
}

struct RecomputeChoice {
  int every;
  Recompute recompute;
};

std::vector<RecomputeChoice> recomputes_of(const FixedLayout& fixed) {
  if (!fixed.recompute_every && !fixed.recompute) {
    return {{0, Recompute::kNone}, {0, Recompute::kSelective}, {1, Recompute::kNone}};
  }
  std::vector<RecomputeChoice> all;
  for (const int every : fixed.recompute_every ? std::vector{*fixed.recompute_every} : std::vector{0, 1}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective}) {
      if (allows(fixed.recompute, recompute)) all.push_back({every, recompute});
    }
  }
  return all;
}

std::vector<ZeroStage> zero_stages_of(int data, const FixedLayout& fixed) {
  using enum ZeroStage;
  if (fixed.zero) return {*fixed.zero};
  return data > 1 ? std::vector{kNone, kOptimizer, kGradients, kParameters} : std::vector{kNone};
}

/// True if the layout exchanges on two levels in some way to accumulate, where it is left the choice.
bool may_have_two_levels(EngineOptions options, ZeroStage zero, int num_ranks) {
  options.zero = zero;
  options.hosts = hosts_like(options.hosts, num_ranks);
  for (const bool unsharded : {true, false}) {
    options.accumulate_unsharded = unsharded;
    if (exchange_of(options, num_ranks).data_ranks_per_host > 1) return true;
  }
  return false;
}

std::vector<DataSharding> shardings_of(const PlannedJob& layout, int data, const FixedLayout& fixed) {
  const Exchange given = layout.options.exchange;
  std::vector<DataSharding> all;
  for (const ZeroStage zero : zero_stages_of(data, fixed)) {
    all.push_back({zero, given});
    if (given == Exchange::kAuto && may_have_two_levels(layout.options, zero, layout.num_ranks))
      all.push_back({zero, Exchange::kFlat});
  }
  return all;
}

/// Adds the ways to recompute and to shard of a layout whose axes are settled.
void add_families(PlannedJob layout, int data, const FixedLayout& fixed, std::vector<LayoutFamily>& all) {
  const std::vector<DataSharding> shardings = shardings_of(layout, data, fixed);
  layout.options.zero = shardings[0].zero;
  for (const RecomputeChoice& recompute : recomputes_of(fixed)) {
    layout.options.recompute_every = recompute.every;
    layout.options.recompute = recompute.recompute;
    all.push_back({layout, shardings});
  }
}

/// Adds the layouts of so many tensor ranks and stages.
void add_layouts(const PlannedJob& job, int tensor, int stages, const FixedLayout& fixed,
                 bool varies_micro_batch, std::vector<LayoutFamily>& all) {
  const int data = job.num_ranks / (tensor * stages);
  PlannedJob layout = job;
  layout.options.tensor = tensor;
  for (const std::int64_t micro_batch : micro_batches_of(job, varies_micro_batch)) {
    layout.options.micro_batch = micro_batch;
    const std::int64_t rounds = rounds_of(layout.options, data);
    if (rounds == 0) continue;
    for (const PipelineOptions& pipeline : pipelines_of(job, stages, fixed)) {
      if (pipeline.schedule == PipelineSchedule::kInterleaved && rounds < stages) continue;
      layout.options.pipeline = pipeline;
      for (const bool sequence : {false, true}) {
        if (!allows(fixed.sequence, sequence) || (sequence && !can_share_sequence(job, tensor))) continue;
        layout.options.sequence = sequence;
        add_families(layout, data, fixed, all);
      }
    }
  }
}

}  // namespace

PlannedJob LayoutFamily::layout(std::size_t sharding) const {
  PlannedJob layout = job;
  layout.options.zero = shardings[sharding].zero;
  layout.options.exchange = shardings[sharding].exchange;
  return layout;
}

std::vector<LayoutFamily> layouts_of(const PlannedJob& job, const FixedLayout& fixed,
                                     bool varies_micro_batch) {
  std::vector<LayoutFamily> all;
  const int chunks = tensor_chunks(*job.blocks), num_blocks = static_cast<int>(job.blocks->size());
  for (int tensor = 1; tensor <= chunks; ++tensor) {
    if (chunks % tensor != 0 || job.num_ranks % tensor != 0 || !allows(fixed.tensor, tensor)) continue;
    for (int stages = 1; stages <= std::min(num_blocks, job.num_ranks / tensor); ++stages) {
      if (job.num_ranks % (tensor * stages) != 0 || !allows(fixed.stages, stages)) continue;
      add_layouts(job, tensor, stages, fixed, varies_micro_batch, all);
    }
  }
  return all;
}

}  // namespace trireme

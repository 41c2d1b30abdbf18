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

/// The values of the layout that a search may use.
class Allowed {
 public:
  Allowed(const PlannedJob& job, const OpenFields& open) : given_(job.options.layout), open_(open) {}

  const Layout& given() const { return given_; }
  bool is_open(std::string_view field) const { return open_.contains(field); }
  template <class T>
  bool operator()(std::string_view field, T Layout::*member, const T& value) const {
    return is_open(field) || given_.*member == value;
  }
  bool stages(int value) const { return (*this)("pipeline", &Layout::pipeline, value); }
  bool schedule(PipelineSchedule value) const { return (*this)("schedule", &Layout::schedule, value); }
  bool chunks(int value) const { return (*this)("chunks", &Layout::chunks, value); }

 private:
  const Layout& given_;
  const OpenFields& open_;
};

/// Layouts with `stages` stages, which differ in schedule and chunks.
std::vector<Layout> pipelines_of(const PlannedJob& job, int stages, const Allowed& allowed) {
  using enum PipelineSchedule;
  const Layout unstaged = job.options.layout.unstaged();
  const bool gives_chunks = !allowed.is_open("chunks") && allowed.given().chunks > 1;
  if (stages == 1) {
    const bool needs_chunks =
        gives_chunks || (!allowed.is_open("schedule") && allowed.given().schedule == kInterleaved);
    return needs_chunks ? std::vector<Layout>{} : std::vector{unstaged};
  }
  std::vector<Layout> all;
  const auto add = [&](PipelineSchedule schedule, int chunks) {
    const bool fits = stages * chunks <= std::ssize(*job.blocks);
    if (!fits || !allowed.schedule(schedule) || !allowed.chunks(chunks)) return;
    Layout& layout = all.emplace_back(unstaged);
    layout.pipeline = stages;
    layout.schedule = schedule;
    layout.chunks = chunks;
  };
  add(kOneForwardOneBackward, 1);
  add(kZeroBubbleH1, 1);
  if (!allowed.is_open("schedule")) add(kGpipe, 1);
  if (gives_chunks) {
    add(kInterleaved, allowed.given().chunks);
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

/// `layout` with each choice of recompute.
std::vector<Layout> recomputes_of(const Layout& layout, const Allowed& allowed) {
  const bool is_open = allowed.is_open("recompute_every") && allowed.is_open("recompute");
  std::vector<Layout> all;
  const std::vector<int> segments =
      allowed.is_open("recompute_every") ? std::vector{0, 1} : std::vector{allowed.given().recompute_every};
  for (const int every : segments) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective}) {
      if (!allowed("recompute", &Layout::recompute, recompute)) continue;
      if (is_open && every > 0 && recompute != Recompute::kNone) continue;  // saves little more
      Layout& one = all.emplace_back(layout);
      one.recompute_every = every;
      one.recompute = recompute;
    }
  }
  return all;
}

std::vector<ZeroStage> zero_stages_of(int data, const Allowed& allowed) {
  using enum ZeroStage;
  if (!allowed.is_open("zero")) return {allowed.given().zero};
  return data > 1 ? std::vector{kNone, kOptimizer, kGradients, kParameters} : std::vector{kNone};
}

/// True if some choice of accumulation gives the layout exchanges of two levels, if it may choose.
bool may_have_two_levels(EngineOptions options, ZeroStage zero, int num_ranks) {
  options.layout.zero = zero;
  options.hosts = hosts_like(options.hosts, num_ranks);
  for (const bool unsharded : {true, false}) {
    options.layout.accumulate_unsharded = unsharded;
    if (exchange_of(options, num_ranks).data_ranks_per_host > 1) return true;
  }
  return false;
}

std::vector<DataSharding> shardings_of(const PlannedJob& layout, int data, const Allowed& allowed) {
  const Exchange given = layout.options.layout.exchange;
  std::vector<DataSharding> all;
  for (const ZeroStage zero : zero_stages_of(data, allowed)) {
    all.push_back({zero, given});
    if (given == Exchange::kAuto && may_have_two_levels(layout.options, zero, layout.num_ranks))
      all.push_back({zero, Exchange::kFlat});
  }
  return all;
}

/// Adds the choices of recompute and sharding of a layout whose axes are fixed.
void add_families(PlannedJob layout, int data, const Allowed& allowed, std::vector<LayoutFamily>& all) {
  const std::vector<DataSharding> shardings = shardings_of(layout, data, allowed);
  layout.options.layout.zero = shardings[0].zero;
  for (const Layout& one : recomputes_of(layout.options.layout, allowed)) {
    layout.options.layout = one;
    all.push_back({layout, shardings});
  }
}

/// Adds the layouts with `tensor` tensor ranks and `stages` stages.
void add_layouts(const PlannedJob& job, int tensor, int stages, const Allowed& allowed,
                 bool varies_micro_batch, std::vector<LayoutFamily>& all) {
  const int data = job.num_ranks / (tensor * stages);
  PlannedJob layout = job;
  for (const std::int64_t micro_batch : micro_batches_of(job, varies_micro_batch)) {
    layout.options.micro_batch = micro_batch;
    const std::int64_t rounds = rounds_of(layout.options, data);
    if (rounds == 0) continue;
    for (const Layout& pipeline : pipelines_of(job, stages, allowed)) {
      if (pipeline.schedule == PipelineSchedule::kInterleaved && rounds < stages) continue;
      for (const bool sequence : {false, true}) {
        if (!allowed("sequence", &Layout::sequence, sequence)) continue;
        if (sequence && !can_share_sequence(job, tensor)) continue;
        layout.options.layout = pipeline;
        layout.options.layout.tensor = tensor;
        layout.options.layout.sequence = sequence;
        add_families(layout, data, allowed, all);
      }
    }
  }
}

}  // namespace

PlannedJob LayoutFamily::layout(std::size_t sharding) const {
  PlannedJob layout = job;
  layout.options.layout.zero = shardings[sharding].zero;
  layout.options.layout.exchange = shardings[sharding].exchange;
  return layout;
}

std::vector<LayoutFamily> layouts_of(const PlannedJob& job, const OpenFields& open, bool varies_micro_batch) {
  const Allowed allowed(job, open);
  std::vector<LayoutFamily> all;
  const int chunks = tensor_chunks(*job.blocks), num_blocks = static_cast<int>(job.blocks->size());
  for (int tensor = 1; tensor <= chunks; ++tensor) {
    if (chunks % tensor != 0 || job.num_ranks % tensor != 0) continue;
    if (!allowed("tensor", &Layout::tensor, tensor)) continue;
    for (int stages = 1; stages <= std::min(num_blocks, job.num_ranks / tensor); ++stages) {
      if (job.num_ranks % (tensor * stages) != 0 || !allowed.stages(stages)) continue;
      add_layouts(job, tensor, stages, allowed, varies_micro_batch, all);
    }
  }
  return all;
}

}  // namespace trireme

#include "launcher/report/plan_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/host/device.h"
#include "launcher/job/accumulation.h"
#include "launcher/job/build.h"
#include "launcher/report/placement.h"
#include "parallel/foresee/accumulation_choice.h"
#include "parallel/foresee/plan_simulate.h"
#include "parallel/layout/block_work.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::vector<AccumulationReport> other_accumulations(const PlanReport& report,
                                                    const std::shared_ptr<const BlockList>& blocks,
                                                    EngineOptions options, int rank) {
  options.planning = Planning::kOwnRank;
  OpenFields open;  // fields that make a difference
  if (has_gradients_to_keep(options, report.num_ranks)) open.insert("accumulate_unsharded");
  if (has_parameters_to_keep(options, report.num_ranks)) open.insert("keep_gathered");
  std::vector<AccumulationReport> others;
  for (const EngineOptions& other : accumulation_choices(options, open, report.num_ranks)) {
    if (other.layout == options.layout) continue;
    const StepPrediction step =
        predict_step(blocks, other, sample_spec(report.config), report.num_ranks, rank);
    others.push_back({other.layout, step.memory.peak_total, step.sent_bytes});
  }
  return others;
}

std::int64_t peak_of_stage(const PlanReport& report, int stage) {
  std::int64_t peak = 0;
  for (const RankGroupReport& group : report.groups) {
    if (report.plan.mesh.coord(group.ranks[0])[Axis::kPipeline] != stage) continue;
    peak = std::max(peak, group.prediction.memory.peak_total);
  }
  return peak;
}

/// The times of the blocks for one micro-batch, forward and backward, in any unit.
std::vector<BlockTime> block_times_of(const JobConfig& config, const BlockList& blocks,
                                      const BlockProfile* profile) {
  if (profile != nullptr) return profile->blocks;
  std::vector<BlockTime> times;
  for (const double work : work_costs(blocks, sample_spec(config))) {
    times.push_back({.block = blocks[times.size()]->name(), .forward_ms = work, .backward_ms = 2 * work});
  }
  return times;
}

std::string describe_context(const MeasuredCard& card) {
  return fmt::format("context and libraries: {} of the card's {}, as measured on {} ({})",
                     format_bytes(card.context_bytes), format_bytes(card.memory_bytes), card.name, card.file);
}

}  // namespace

MemoryLimit planned_limit(const JobConfig& config, int num_ranks, int ranks_per_machine,
                          const MeasuredCard* card) {
  TRIREME_CHECK(ranks_per_machine <= num_ranks, "--ranks-per-machine {} is more than --ranks {}",
                ranks_per_machine, num_ranks);
  if (card != nullptr && config.parallel.memory_limit == 0) {
    return {card->usable_bytes(), fmt::format("{}, {}", card->name, card->file)};
  }
  const int sharing = ranks_per_machine > 0 ? ranks_per_machine : num_ranks;
  MemoryLimit limit = memory_limit(config, {DeviceType::kCpu, 0}, sharing);
  if (config.parallel.memory_limit == 0 && num_ranks > 1) {
    limit.source += "; --ranks-per-machine for another placement";
  }
  return limit;
}

PlanReport make_plan_report(const JobConfig& given, int num_ranks, int ranks_per_machine,
                            const BlockProfile* profile, const MeasuredCard* card,
                            const ClusterChoice* cluster) {
  const BatchLayout batch = batch_layout(given, num_ranks);
  const auto blocks = build_blocks(given.model);
  const MemoryLimit limit = planned_limit(given, num_ranks, ranks_per_machine, card);
  JobConfig config = given;
  if (ranks_per_machine > 0) config.parallel.hosts = hosts_of(num_ranks, ranks_per_machine);
  config = with_accumulation(config, blocks, num_ranks, limit);
  const PlannedJob job = planned_job(config, blocks, num_ranks);
  const auto engine = engine_on_meta(job);  // plans and validates
  PlanReport report{.config = config,
                    .num_ranks = num_ranks,
                    .num_parameters = engine->layout().num_parameters,
                    .note = card == nullptr ? note_on_device(config) : "",
                    .context = card == nullptr || card->context_bytes == 0 ? "" : describe_context(*card),
                    .accumulation = describe_accumulation(job.options, num_ranks),
                    .hosts = engine->hosts(),
                    .exchange = engine->exchange(),
                    .plan = engine->plan()};
  for (const auto& block : *blocks) report.unit_names.push_back(block->name());
  for (const std::vector<int>& ranks : classes_of_equal_needs(batch, engine->groups().mesh)) {
    report.groups.push_back(
        {.ranks = ranks, .prediction = predict_step(blocks, job.options, job.sample, num_ranks, ranks[0])});
  }
  report.tensor_warning =
      warn_of_tensor_over_hosts({engine->groups().mesh, report.hosts}, report.groups[0].prediction);
  if (engine->stages().pipeline > 1) {
    const std::vector<BlockTime> times = block_times_of(config, *blocks, profile);
    if (profile != nullptr)
      report.measured_on = fmt::format("{}, {} thread(s)", profile->device, profile->threads);
    report.chunks = make_chunk_reports(*blocks, engine->stages(), time_costs(times));
    report.bubble_share = simulate_plan(report.plan, {.blocks = times}).bubble_share();
    for (ChunkReport& chunk : report.chunks) chunk.peak_bytes = peak_of_stage(report, chunk.stage);
  }
  const auto largest = std::ranges::max_element(
      report.groups, {}, [](const RankGroupReport& group) { return group.prediction.memory.device_peak; });
  report.fit = fit_memory(job, largest->prediction, limit);
  if (cluster != nullptr) report.time = plan_time(config, job, report.plan, *cluster);
  report.other_accumulations = other_accumulations(report, blocks, job.options, largest->ranks[0]);
  return report;
}

}  // namespace trireme

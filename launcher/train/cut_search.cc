#include "launcher/train/cut_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "launcher/train/build.h"
#include "parallel/foresee/block_times.h"
#include "parallel/foresee/chunked_cut.h"
#include "parallel/foresee/predict.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

/// [block] the first block that does the same work at the same cost.
std::vector<int> kinds_of(const BlockList& blocks, const std::vector<double>& costs) {
  std::vector<int> kinds;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    std::size_t first = 0;
    while (first < b && (costs[first] != costs[b] || !is_twin(*blocks[first], *blocks[b]))) ++first;
    kinds.push_back(static_cast<int>(first));
  }
  return kinds;
}

std::vector<double> normalised(std::vector<double> costs) {
  const double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
  for (double& cost : costs) cost /= sum;
  return costs;
}

/// All cuts, or nothing where they are more than `most`.
std::vector<StageCut> all_cuts(int num_blocks, int num_stages, std::size_t most) {
  std::vector<StageCut> cuts;
  StageCut cut{.firsts = {}, .num_blocks = num_blocks};
  for (int stage = 0; stage < num_stages; ++stage) cut.firsts.push_back(stage);
  while (cuts.size() <= most) {
    cuts.push_back(cut);
    // The last boundary that can move does; those behind it follow closely.
    int stage = num_stages - 1;
    while (stage > 0 && cut.firsts[static_cast<std::size_t>(stage)] == num_blocks - num_stages + stage)
      --stage;
    if (stage == 0) return cuts;
    int first = cut.firsts[static_cast<std::size_t>(stage)] + 1;
    for (; stage < num_stages; ++stage) cut.firsts[static_cast<std::size_t>(stage)] = first++;
  }
  return {};
}

}  // namespace

std::string as_list(const StageCut& cut) {
  return to_word(listed(cut));
}

PipelineCut listed(const StageCut& cut) {
  return {.kind = PipelineCut::Kind::kListed, .firsts = {cut.firsts.begin() + 1, cut.firsts.end()}};
}

CutSearch::CutSearch(const JobConfig& config, std::vector<double> costs, const CutMemory& memory)
    : config_(config),
      costs_(std::move(costs)),
      memory_(memory),
      num_stages_(static_cast<int>(config.parallel.pipeline * config.parallel.chunks)),
      blocks_(build_blocks(config.model)) {}

template <class Visit>
void CutSearch::predict(const StageCut& cut, const Visit& visit) const {
  JobConfig job = config_;
  job.parallel.pipeline_cut = listed(cut);
  const EngineOptions options = engine_options(job, *blocks_);
  const Mesh mesh = mesh_of(memory_.num_ranks, options.pipeline.stages);
  const BatchLayout batch{.global_batch = options.global_batch,
                          .micro_batch = options.micro_batch,
                          .data_ranks = mesh.size(Axis::kData)};
  for (const std::vector<int>& ranks : classes_of_equal_needs(batch, mesh)) {
    visit(mesh.coord(ranks[0])[Axis::kPipeline], [&] {
      return predict_step(blocks_, options, sample_spec(job), memory_.num_ranks, ranks[0]).memory.peak_total;
    });
  }
}

std::vector<int> CutSearch::too_large(const StageCut& cut) {
  std::vector<int> stages;
  Closest tried{.cut = cut};
  predict(cut, [&](int stage, const auto& predicted) {
    const std::int64_t bytes = predicted();
    if (bytes > memory_.limit_bytes) stages.push_back(stage);
    if (bytes > tried.largest.bytes) tried.largest = {stage, bytes};
  });
  if (!closest_ || tried.largest.bytes < closest_->largest.bytes) closest_ = std::move(tried);
  return stages;
}

bool CutSearch::fits(const StageCut& cut, int stage) const {
  bool fits = true;
  predict(cut, [&](int of, const auto& predicted) {
    if (of == stage && fits) fits = predicted() <= memory_.limit_bytes;
  });
  return fits;
}

CutSearch::LargestStage CutSearch::largest_stage(const StageCut& cut) const {
  LargestStage largest;
  predict(cut, [&](int stage, const auto& predicted) {
    const std::int64_t bytes = predicted();
    if (bytes > largest.bytes) largest = {stage, bytes};
  });
  return largest;
}

std::size_t CutSearch::predictions_of_seconds() const {
  const std::int64_t micro_batches = config_.train.global_batch / config_.train.micro_batch;
  const std::int64_t actions = micro_batches * static_cast<std::int64_t>(blocks_->size()) *
                               config_.parallel.pipeline / memory_.num_ranks;
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(300'000 / std::max<std::int64_t>(actions, 1), 100, 2000));
}

std::optional<StageCut> CutSearch::fastest_that_fits() {
  std::optional<StageCut> cut;
  if (config_.parallel.chunks == 1) {
    cut = cut_within_memory(costs_, num_stages_,
                            {.too_large = [&](const StageCut& c) { return too_large(c); },
                             .fits = [&](const StageCut& c, int stage) { return fits(c, stage); },
                             .kinds = kinds_of(*blocks_, costs_)});
  } else {
    cut = fastest_into_chunks();
  }
  // Segments that are recomputed may need less with a block more.
  if (!cut && config_.parallel.recompute_every > 0) cut = fastest_of_a_choice();
  return cut;
}

std::optional<StageCut> CutSearch::fastest_into_chunks() {
  const auto found =
      cut_into_chunks({.blocks = costs_,
                       .ranks = static_cast<int>(config_.parallel.pipeline),
                       .chunks = static_cast<int>(config_.parallel.chunks),
                       .fits = [&](const StageCut& cut, int stage) { return fits(cut, stage); },
                       .most_questions = predictions_of_seconds(),
                       .kinds = kinds_of(*blocks_, costs_)});
  if (!found) return std::nullopt;
  constexpr double kWorthSaying = 1.01;  // costs are no more exact than that
  if (!found->is_least && found->slowest > kWorthSaying * found->bound) {
    const double percent = 100 / std::accumulate(costs_.begin(), costs_.end(), 0.0);
    log_warning(fmt::format(
        "parallel.pipeline_cut = \"{}\": there are too many cuts to look at all of them; in the "
        "best one found "
        "the slowest chunk takes {:.2f} % of the time, and none can take less than {:.2f} %",
        to_word(config_.parallel.pipeline_cut), percent * found->slowest, percent * found->bound));
  }
  return found->cut;
}

std::vector<StageCut> CutSearch::blended_cuts() const {
  constexpr int kSteps = 8;
  const std::vector<double> by_cost = normalised(costs_), by_size = normalised(parameter_costs(*blocks_));
  std::vector<StageCut> cuts;
  for (int step = 0; step <= kSteps; ++step) {
    const double share = static_cast<double>(step) / kSteps;
    std::vector<double> costs;
    for (std::size_t b = 0; b < costs_.size(); ++b) {
      costs.push_back((1 - share) * by_cost[b] + share * by_size[b]);
    }
    cuts.push_back(cut_evenly({.blocks = costs}, num_stages_));
  }
  return cuts;
}

// All cuts where they are few.
std::optional<StageCut> CutSearch::fastest_of_a_choice() {
  constexpr std::size_t kFew = 400;  // a prediction takes milliseconds
  std::vector<StageCut> cuts = all_cuts(static_cast<int>(costs_.size()), num_stages_, kFew);
  if (cuts.empty()) cuts = blended_cuts();
  std::vector<std::pair<double, StageCut>> by_cost;
  for (StageCut& cut : cuts) {
    by_cost.emplace_back(std::ranges::max(stage_costs(cut, costs_)), std::move(cut));
  }
  std::ranges::stable_sort(by_cost, {}, &std::pair<double, StageCut>::first);
  for (const auto& [slowest, cut] : by_cost) {
    if (too_large(cut).empty()) return cut;
  }
  return std::nullopt;
}

StageCut CutSearch::closest() {
  const std::size_t few = predictions_of_seconds() / static_cast<std::size_t>(num_stages_);
  std::vector<StageCut> cuts = all_cuts(static_cast<int>(costs_.size()), num_stages_, few);
  if (cuts.empty()) cuts = blended_cuts();
  for (const StageCut& cut : cuts) too_large(cut);
  const auto& [cut, largest] = *closest_;
  if (largest.bytes > memory_.limit_bytes) {
    log_warning(
        fmt::format("parallel.pipeline_cut = \"{}\": none of the cuts that were tried fits {}: where the "
                    "largest stage is "
                    "smallest (\"{}\"), a rank of stage {} needs {}",
                    to_word(config_.parallel.pipeline_cut), format_bytes(memory_.limit_bytes), as_list(cut),
                    largest.stage, format_bytes(largest.bytes)));
  }
  return cut;
}

}  // namespace trireme

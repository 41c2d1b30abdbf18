#include "launcher/measured_cut.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/agreement.h"
#include "launcher/build.h"
#include "launcher/output_folder.h"
#include "parallel/block_times.h"
#include "parallel/chunked_cut.h"
#include "parallel/predict.h"
#include "parallel/stage_cut.h"
#include "parallel/watchdog.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

BlockProfile profile_of(const JobConfig& config, const CutMeasurement& measurement) {
  if (std::filesystem::exists(measurement.file)) {
    BlockProfile known = read_profile(measurement.file);
    const bool same_place =
        known.device == to_string(measurement.device) && known.threads == measurement.threads;
    if (same_place && describe_mismatch(known, config).empty()) return known;
  }
  prepare_output_folder(measurement.file.parent_path());
  const BlockProfile profile = measure_profile(config, measurement.device, measurement.threads);
  write_text_file(measurement.file, to_json(profile));
  return profile;
}

std::string as_list(const StageCut& cut) {
  std::string text;
  for (int stage = 1; stage < cut.num_stages(); ++stage) {
    text += fmt::format("{}{}", stage == 1 ? "" : ", ", cut.first(stage));
  }
  return text;
}

/// Asks the prediction of a step which stages need more than the limit.
class CutPredictor {
 public:
  CutPredictor(const JobConfig& config, const CutMemory& memory)
      : config_(config), memory_(memory), blocks_(build_blocks(config.model)) {}

  const BlockList& blocks() const { return *blocks_; }

  std::vector<int> too_large(const StageCut& cut) {
    std::vector<int> stages;
    Closest tried{.cut = cut};
    predict(cut, [&](int stage, const auto& predicted) {
      const std::int64_t bytes = predicted();
      if (bytes > memory_.limit_bytes) stages.push_back(stage);
      if (bytes > tried.bytes) tried.stage = stage, tried.bytes = bytes;
    });
    if (!closest_ || tried.bytes < closest_->bytes) closest_ = std::move(tried);
    return stages;
  }

  bool fits(const StageCut& cut, int stage) const {
    bool fits = true;
    predict(cut, [&](int of, const auto& predicted) {
      if (of == stage && fits) fits = predicted() <= memory_.limit_bytes;
    });
    return fits;
  }

  /// How many predictions of a stage are a matter of seconds: each takes 5 to 20 us a block and micro-batch.
  std::size_t predictions_of_seconds() const {
    const std::int64_t micro_batches = config_.train.global_batch / config_.train.micro_batch;
    const std::int64_t actions = micro_batches * static_cast<std::int64_t>(blocks_->size()) *
                                 config_.parallel.pipeline / memory_.num_ranks;
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(300'000 / std::max<std::int64_t>(actions, 1), 100, 2000));
  }

  /// Of the cuts that too_large() was asked about, the one whose largest stage is smallest.
  struct Closest {
    StageCut cut;
    int stage = 0;
    std::int64_t bytes = -1;  // of a rank of that stage
  };
  const std::optional<Closest>& closest() const { return closest_; }

 private:
  /// Calls visit(stage, function that returns the peak bytes) for every class of ranks that need the same.
  template <class Visit>
  void predict(const StageCut& cut, const Visit& visit) const {
    JobConfig job = config_;
    job.parallel.pipeline_cut = as_list(cut);
    const EngineOptions options = engine_options(job);
    const Mesh mesh = mesh_of(memory_.num_ranks, options.pipeline.stages);
    const BatchLayout batch{
        .global_batch = options.global_batch, .micro_batch = options.micro_batch, .data_ranks = mesh.data};
    for (const std::vector<int>& ranks : classes_of_equal_needs(batch, mesh)) {
      visit(mesh.place(ranks[0]).stage, [&] {
        return predict_step(blocks_, options, sample_spec(job), memory_.num_ranks, ranks[0])
            .memory.peak_total;
      });
    }
  }

  const JobConfig& config_;
  const CutMemory memory_;
  const std::shared_ptr<const BlockList> blocks_;
  std::optional<Closest> closest_;
};

/// [block] the first block that does the same work in the same time.
std::vector<int> kinds_of(const BlockList& blocks, const std::vector<double>& times) {
  std::vector<int> kinds;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    std::size_t first = 0;
    while (first < b && (times[first] != times[b] || !is_twin(*blocks[first], *blocks[b]))) ++first;
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

/// Cuts between even times and even parameters.
std::vector<StageCut> blended_cuts(const std::vector<double>& times, int num_stages,
                                   const BlockList& blocks) {
  constexpr int kSteps = 8;
  const std::vector<double> by_time = normalised(times), by_size = normalised(parameter_costs(blocks));
  std::vector<StageCut> cuts;
  for (int step = 0; step <= kSteps; ++step) {
    const double share = static_cast<double>(step) / kSteps;
    std::vector<double> costs;
    for (std::size_t b = 0; b < times.size(); ++b) {
      costs.push_back((1 - share) * by_time[b] + share * by_size[b]);
    }
    cuts.push_back(cut_evenly({.blocks = costs}, num_stages));
  }
  return cuts;
}

/// The quickest that fits of all cuts where they are few, else of a choice of them.
std::optional<StageCut> quickest_that_fits(const std::vector<double>& times, int num_stages,
                                           CutPredictor& predictor) {
  constexpr std::size_t kFew = 400;  // a prediction takes milliseconds
  std::vector<StageCut> cuts = all_cuts(static_cast<int>(times.size()), num_stages, kFew);
  if (cuts.empty()) cuts = blended_cuts(times, num_stages, predictor.blocks());
  std::vector<std::pair<double, StageCut>> by_time;
  for (StageCut& cut : cuts) {
    by_time.emplace_back(std::ranges::max(stage_costs(cut, times)), std::move(cut));
  }
  std::ranges::stable_sort(by_time, {}, &std::pair<double, StageCut>::first);
  for (const auto& [slowest_ms, cut] : by_time) {
    if (predictor.too_large(cut).empty()) return cut;
  }
  return std::nullopt;
}

std::optional<StageCut> chunked_cut(const JobConfig& config, const std::vector<double>& times,
                                    const CutPredictor& predictor) {
  const auto found =
      cut_into_chunks({.blocks = times,
                       .ranks = static_cast<int>(config.parallel.pipeline),
                       .chunks = static_cast<int>(config.parallel.chunks),
                       .fits = [&](const StageCut& cut, int stage) { return predictor.fits(cut, stage); },
                       .most_questions = predictor.predictions_of_seconds(),
                       .kinds = kinds_of(predictor.blocks(), times)});
  if (!found) return std::nullopt;
  constexpr double kWorthSaying = 1.01;  // times are no more exact than that
  if (!found->is_least && found->slowest > kWorthSaying * found->bound) {
    log_warning(fmt::format(
        "parallel.pipeline_cut = \"measured\": there are too many cuts to look at all of them; in the best "
        "one found the slowest chunk takes {:.3f} ms a micro-batch, and none can take less than {:.3f} ms",
        found->slowest, found->bound));
  }
  return found->cut;
}

/// Where no cut was found to fit: says so, and takes the one that comes closest of all cuts, or of a choice
/// where they are many. The check of the job's memory then names its bytes, with what would help.
StageCut closest_cut(const std::vector<double>& times, int num_stages, CutPredictor& predictor,
                     std::int64_t limit_bytes) {
  const std::size_t few = predictor.predictions_of_seconds() / static_cast<std::size_t>(num_stages);
  std::vector<StageCut> cuts = all_cuts(static_cast<int>(times.size()), num_stages, few);
  if (cuts.empty()) cuts = blended_cuts(times, num_stages, predictor.blocks());
  for (const StageCut& cut : cuts) predictor.too_large(cut);
  const CutPredictor::Closest& closest = *predictor.closest();
  if (closest.bytes <= limit_bytes) return closest.cut;
  log_warning(fmt::format(
      "parallel.pipeline_cut = \"measured\": none of the cuts that were tried fits {}: where the largest "
      "stage is smallest (\"{}\"), a rank of stage {} needs {}",
      format_bytes(limit_bytes), as_list(closest.cut), closest.stage, format_bytes(closest.bytes)));
  return closest.cut;
}

}  // namespace

std::string measured_cut(const JobConfig& config, const BlockProfile& profile, const CutMemory& memory) {
  const auto num_stages = static_cast<int>(config.parallel.pipeline * config.parallel.chunks);
  const std::vector<double> times = time_costs(profile.blocks);
  CutPredictor predictor(config, memory);
  std::optional<StageCut> cut;
  if (config.parallel.chunks == 1) {
    cut = cut_within_memory(times, num_stages, [&](const StageCut& c) { return predictor.too_large(c); });
  } else {
    cut = chunked_cut(config, times, predictor);
  }
  // Segments that are recomputed may need less with a block more.
  if (!cut && config.parallel.recompute_every > 0) {
    cut = quickest_that_fits(times, num_stages, predictor);
  }
  return as_list(cut ? *cut : closest_cut(times, num_stages, predictor, memory.limit_bytes));
}

JobConfig with_measured_cut(JobConfig config, const std::shared_ptr<Communicator>& comm,
                            const CutMeasurement& measurement) {
  if (config.parallel.pipeline_cut != "measured" || config.parallel.pipeline == 1) return config;
  const Watchdog::Scope watch(comm->status().get(), "the measuring of a cut into stages");
  std::string cut;
  run_stage(*comm, [&] {
    if (comm->rank() > 0) return;
    check_batch(config.train, data_ranks(config.parallel, comm->size()));
    cut = measured_cut(config, profile_of(config, measurement),
                       {.num_ranks = comm->size(), .limit_bytes = measurement.limit_bytes});
  });
  config.parallel.pipeline_cut = text_of_rank(*comm, 0, cut);
  return config;
}

}  // namespace trireme

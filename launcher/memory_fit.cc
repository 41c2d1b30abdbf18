#include "launcher/memory_fit.h"

#include <algorithm>

#include "kernels/backend.h"
#include "launcher/build.h"
#include "launcher/machine.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

/// "a, b and c".
std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ", parts[i]);
  }
  return text;
}

/// Tries changed jobs, cheap ones first. See [Note: order of remedies].
class RemedySearch {
 public:
  RemedySearch(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks, int num_ranks,
               std::int64_t limit_bytes)
      : config_(config), blocks_(blocks), num_ranks_(num_ranks), limit_bytes_(limit_bytes) {}

  std::optional<Remedy> run() {
    const std::int64_t batch = config_.train.global_batch;
    const std::int64_t stages = config_.parallel.pipeline;
    for (std::int64_t ranks = num_ranks_; ranks / stages <= batch; ranks *= 2) {
      for (std::int64_t micro_batch = config_.train.micro_batch; micro_batch >= 1; --micro_batch) {
        const std::int64_t round = micro_batch * (ranks / stages);
        if (config_.train.micro_batch % micro_batch != 0 || batch % round != 0) continue;
        // Interleaved stages want a micro-batch each.
        if (config_.parallel.schedule == "interleaved" && batch / round < stages) continue;
        if (auto remedy = with_batch(static_cast<int>(ranks), micro_batch)) return remedy;
      }
    }
    return std::nullopt;
  }

  /// After run() has found nothing: the smallest of all layouts.
  TooLargeBlock too_large() const {
    std::size_t culprit = least_.peak_action();
    std::int64_t block_bytes = bytes_of_block(culprit);
    for (std::size_t i = 0; i < least_.actions.size(); ++i) {
      if (bytes_of_block(i) <= std::max(block_bytes, limit_bytes_)) continue;
      culprit = i;
      block_bytes = bytes_of_block(i);
    }
    const int unit = least_.plan.actions[culprit].unit;
    return {.block = unit >= 0 ? least_.unit_names[static_cast<std::size_t>(unit)] : "",
            .action = least_.describe(culprit),
            .peak_bytes = least_.actions[culprit].alive.total(),
            .block_bytes = block_bytes,
            .changes = changes_of(least_config_, least_ranks_)};
  }

 private:
  std::vector<std::int64_t> zero_stages(int ranks) const {
    std::vector<std::int64_t> stages;
    const bool shards = ranks > config_.parallel.pipeline;
    for (std::int64_t zero = config_.parallel.zero; zero <= (shards ? 3 : config_.parallel.zero); ++zero) {
      stages.push_back(zero);
    }
    return stages;
  }

  std::vector<std::int64_t> recompute_choices() const {
    const std::int64_t given = config_.parallel.recompute_every;
    std::vector<std::int64_t> choices = {given};
    // The shortest segments are not always the smallest: of n layers they keep n inputs.
    for (const std::int64_t k : {8, 4, 2, 1}) {
      if (k != given && k <= config_.model.layers) choices.push_back(k);
    }
    return choices;
  }

  std::optional<Remedy> with_batch(int ranks, std::int64_t micro_batch) {
    const auto zero = zero_stages(ranks);
    for (const std::int64_t recompute : recompute_choices()) {
      for (const std::int64_t stage : zero) {
        const std::int64_t peak = try_one(ranks, micro_batch, recompute, stage).memory.peak_total;
        if (peak > limit_bytes_) continue;
        const JobConfig job = changed(micro_batch, recompute, stage);
        return Remedy{
            .config = job, .num_ranks = ranks, .changes = changes_of(job, ranks), .peak_bytes = peak};
      }
    }
    return std::nullopt;
  }

  JobConfig changed(std::int64_t micro_batch, std::int64_t recompute, std::int64_t zero) const {
    JobConfig job = config_;
    job.train.micro_batch = micro_batch;
    job.parallel.recompute_every = recompute;
    job.parallel.zero = zero;
    return job;
  }

  StepPrediction try_one(int ranks, std::int64_t micro_batch, std::int64_t recompute, std::int64_t zero) {
    const JobConfig job = changed(micro_batch, recompute, zero);
    StepPrediction prediction = predict_largest_step(blocks_, engine_options(job), sample_spec(job), ranks);
    if (least_.actions.empty() || prediction.memory.peak_total < least_.memory.peak_total) {
      least_ = prediction;
      least_config_ = job;
      least_ranks_ = ranks;
    }
    return prediction;
  }

  std::vector<std::string> changes_of(const JobConfig& job, int ranks) const {
    std::vector<std::string> changes;
    const auto add = [&](const char* key, std::int64_t before, std::int64_t now) {
      if (now != before) changes.push_back(fmt::format("{} = {}", key, now));
    };
    add("parallel.zero", config_.parallel.zero, job.parallel.zero);
    add("parallel.recompute_every", config_.parallel.recompute_every, job.parallel.recompute_every);
    add("train.micro_batch", config_.train.micro_batch, job.train.micro_batch);
    if (ranks != num_ranks_) changes.push_back(fmt::format("{} ranks", ranks));
    return changes;
  }

  /// What is alive while a block runs beside the model's state: activations, its own and those kept for
  /// backward, and gathered or exchanged buffers.
  std::int64_t bytes_of_block(std::size_t action) const {
    if (least_.plan.actions[action].unit < 0) return 0;
    const MemoryCounts& alive = least_.actions[action].alive;
    return alive[MemoryCategory::kActivations] + alive[MemoryCategory::kCommunication] +
           alive[MemoryCategory::kBatch];
  }

  const JobConfig& config_;
  const std::shared_ptr<const BlockList>& blocks_;
  const int num_ranks_;
  const std::int64_t limit_bytes_;
  StepPrediction least_;  // the smallest of all that were tried
  JobConfig least_config_;
  int least_ranks_ = 1;
};

std::string nothing_fits(const TooLargeBlock& t) {
  const std::string with = t.changes.empty() ? "in the smallest layout" : "with " + join(t.changes);
  std::string text = fmt::format(
      "no larger parallel.zero, recompute, smaller train.micro_batch or more ranks make it fit: even {} a "
      "rank needs "
      "{}, in {}",
      with, format_bytes(t.peak_bytes), t.action);
  if (!t.block.empty()) {
    text += fmt::format(", {} of it activations and exchanged buffers while block '{}' runs",
                        format_bytes(t.block_bytes), t.block);
  }
  return text + ". Choose a smaller model, model.seq_len or vocabulary, or devices with more memory";
}

}  // namespace

MemoryLimit memory_limit(const JobConfig& config, Device device, int num_local_ranks) {
  if (config.parallel.memory_limit > 0) return {config.parallel.memory_limit, "parallel.memory_limit"};
  if (device.type == DeviceType::kCuda) {
    const DeviceReport report = backend_for(device.type).examine_devices();
    const DeviceReport::Card& card = report.devices.at(static_cast<std::size_t>(device.index));
    return {card.memory_bytes, to_string(device) + ", " + card.name};
  }
  const int ranks = std::max(1, num_local_ranks);
  return {total_memory_bytes() / ranks,
          ranks == 1 ? "this machine" : fmt::format("this machine, for each of {} ranks", ranks)};
}

MemoryFit fit_memory(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks,
                     const StepPrediction& prediction, int num_ranks, const MemoryLimit& limit) {
  MemoryFit fit{.limit = limit,
                .peak_bytes = prediction.memory.peak_total,
                .at_peak = prediction.memory.at_peak,
                .action = prediction.describe(prediction.peak_action())};
  if (fit.fits()) return fit;
  RemedySearch search(config, blocks, num_ranks, limit.bytes);
  fit.remedy = search.run();
  if (!fit.remedy) fit.too_large = search.too_large();
  return fit;
}

std::string to_text(const MemoryFit& fit) {
  const std::string limit = fmt::format("{} ({})", format_bytes(fit.limit.bytes), fit.limit.source);
  if (fit.fits()) return fmt::format("fits: {} of {}", format_bytes(fit.peak_bytes), limit);
  std::string text = fmt::format("the job does not fit: a rank needs {} ({}), in {}, and may use {}; ",
                                 format_bytes(fit.peak_bytes), to_string(fit.at_peak), fit.action, limit);
  if (fit.remedy) {
    return text + fmt::format("with {} it fits, in {}", join(fit.remedy->changes),
                              format_bytes(fit.remedy->peak_bytes));
  }
  return text + nothing_fits(*fit.too_large);
}

StepPrediction check_memory(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks,
                            int num_ranks, int rank, const MemoryLimit& limit) {
  StepPrediction prediction =
      predict_step(blocks, engine_options(config), sample_spec(config), num_ranks, rank);
  const MemoryFit fit = fit_memory(config, blocks, prediction, num_ranks, limit);
  if (!fit.fits()) throw Error(ErrorCode::kInvalidInput, to_text(fit));
  return prediction;
}

}  // namespace trireme

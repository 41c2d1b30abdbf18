#include "launcher/train/memory_fit.h"

#include <algorithm>

#include "kernels/backend.h"
#include "launcher/host/machine.h"
#include "launcher/train/build.h"
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

std::string nothing_fits(const MemoryFit& fit) {
  const SmallestLayout& s = *fit.smallest;
  const std::string with = s.changes.empty() ? "in the smallest layout" : "with " + join(s.changes);
  std::string text = fmt::format(
      "no larger parallel.zero, recompute, smaller train.micro_batch or more ranks (up to one a sample of "
      "train.global_batch = {}) make it fit: even {} a rank needs {}, in {}",
      fit.global_batch, with, format_bytes(s.peak_bytes), s.action);
  if (!s.block.empty()) {
    text += fmt::format("; {} of activations and exchanged buffers are alive while block '{}' runs, in {}",
                        format_bytes(s.block_bytes), s.block, s.block_action);
  }
  return text +
         ". Choose a smaller model, model.seq_len or vocabulary, a larger train.global_batch on more ranks, "
         "or "
         "devices with more memory";
}

// More ranks on the same machine would leave less to each.
std::string placement(const MemoryFit& fit) {
  if (fit.limit.ranks_a_machine == 0 || fit.remedy->num_ranks <= fit.num_ranks) return "";
  return fmt::format(", no more than {} of them on a machine like this one,", fit.limit.ranks_a_machine);
}

/// A smaller data.cache, where that is enough: nothing else of the job changes, and only waiting for pictures
/// may grow.
std::optional<Remedy> smaller_cache(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks,
                                    const StepPrediction& prediction, int num_ranks,
                                    const MemoryLimit& limit) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  const std::int64_t others = prediction.memory.peak_total - prediction.memory.at_peak[MemoryCategory::kData];
  if (others == prediction.memory.peak_total || others > limit.bytes) return std::nullopt;
  const std::int64_t mib = (limit.bytes - others) / kMiB;
  Remedy remedy{.config = config, .num_ranks = num_ranks};
  remedy.config.data.cache = mib * kMiB;
  remedy.changes = {mib > 0 ? fmt::format("data.cache = \"{} MiB\"", mib) : "data.cache = 0"};
  const auto fits = predict_within(limit.bytes, blocks, engine_options(remedy.config, *blocks),
                                   sample_spec(remedy.config), num_ranks);
  if (!fits) return std::nullopt;
  remedy.peak_bytes = fits->memory.peak_total;
  return remedy;
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
          ranks == 1 ? "this machine" : fmt::format("this machine, for each of {} ranks", ranks), ranks};
}

MemoryFit fit_memory(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks,
                     const StepPrediction& prediction, int num_ranks, const MemoryLimit& limit) {
  MemoryFit fit{.limit = limit,
                .num_ranks = num_ranks,
                .global_batch = config.train.global_batch,
                .peak_bytes = prediction.memory.peak_total,
                .at_peak = prediction.memory.at_peak,
                .action = prediction.describe(prediction.peak_action())};
  if (fit.fits()) return fit;
  fit.remedy = smaller_cache(config, blocks, prediction, num_ranks, limit);
  if (fit.remedy) return fit;
  RemedySearch search(config, blocks, num_ranks, limit.bytes);
  fit.remedy = search.run();
  if (!fit.remedy) fit.smallest = search.smallest();
  return fit;
}

std::string to_text(const MemoryFit& fit) {
  const std::string limit = fmt::format("{} ({})", format_bytes(fit.limit.bytes), fit.limit.source);
  if (fit.fits()) return fmt::format("fits: {} of {}", format_bytes(fit.peak_bytes), limit);
  return fmt::format("the job does not fit: a rank needs {} ({}), in {}, and may use {}; {}",
                     format_bytes(fit.peak_bytes), to_string(fit.at_peak), fit.action, limit,
                     describe_remedy(fit));
}

std::string describe_remedy(const MemoryFit& fit) {
  if (!fit.remedy) return nothing_fits(fit);
  return fmt::format("with {}{} it fits, in {} a rank", join(fit.remedy->changes), placement(fit),
                     format_bytes(fit.remedy->peak_bytes));
}

StepPrediction check_memory(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks,
                            int num_ranks, int rank, const MemoryLimit& limit) {
  StepPrediction prediction =
      predict_step(blocks, engine_options(config, *blocks), sample_spec(config), num_ranks, rank);
  const MemoryFit fit = fit_memory(config, blocks, prediction, num_ranks, limit);
  if (!fit.fits()) throw Error(ErrorCode::kInvalidInput, to_text(fit));
  return prediction;
}

}  // namespace trireme

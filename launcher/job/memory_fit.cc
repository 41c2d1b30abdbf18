#include "launcher/job/memory_fit.h"

#include <algorithm>

#include "kernels/backend.h"
#include "launcher/config/field_keys.h"
#include "launcher/host/machine.h"
#include "launcher/job/build.h"
#include "launcher/state/initial_weights.h"
#include "parallel/comm/nccl.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::string nothing_fits(const JobFit& fit) {
  const SmallestLayout& s = *fit.smallest;
  const std::string with =
      s.changes.empty() ? "in the smallest layout" : "with " + describe_as_keys(s.changes);
  std::string text = fmt::format(
      "no larger parallel.zero, parallel.sequence, recompute, larger parallel.tensor (up to "
      "model.tensor_chunks), smaller train.micro_batch or more ranks (up to one a sample and tensor place of "
      "train.global_batch = {}) make it fit: even {} a rank needs {}, in {}",
      fit.global_batch, with, format_bytes(s.peak_bytes), s.action);
  if (!s.block.empty()) {
    text += fmt::format("; {} of activations and exchanged buffers are alive while block '{}' runs, in {}",
                        format_bytes(s.block_bytes), s.block, s.block_action);
  }
  return text +
         ". Choose a smaller model, model.seq_len or vocabulary, a larger train.global_batch on more ranks, "
         "or devices with more memory";
}

// More ranks on the same machine would reduce the limit of each.
std::string placement(const JobFit& fit) {
  if (fit.limit.ranks_a_machine == 0 || fit.remedy->job.num_ranks <= fit.num_ranks) return "";
  return fmt::format(", no more than {} of them on a machine like this one,", fit.limit.ranks_a_machine);
}

}  // namespace

MemoryLimit memory_limit(const JobConfig& config, Device device, int num_local_ranks) {
  if (config.parallel.memory_limit > 0) return {config.parallel.memory_limit, "parallel.memory_limit"};
  if (!traits(device.type).host_memory) {
    const DeviceReport report = backend_for(device.type).examine_devices();
    const DeviceReport::Card& card = report.devices.at(static_cast<std::size_t>(device.index));
    const RankPlacement placement{.num_local_ranks = num_local_ranks,
                                  .num_gpus = static_cast<int>(report.devices.size()),
                                  .may_share = config.parallel.share_device};
    const int ranks = placement.ranks_per_gpu();
    return {card.memory_bytes / ranks, to_string(device) + ", " + card.name +
                                           (ranks == 1 ? "" : fmt::format(", for each of {} ranks", ranks))};
  }
  const int ranks = std::max(1, num_local_ranks);
  return {total_memory_bytes() / ranks,
          ranks == 1 ? "this machine" : fmt::format("this machine, for each of {} ranks", ranks), ranks};
}

JobFit fit_memory(const PlannedJob& job, const StepPrediction& prediction, const MemoryLimit& limit) {
  return {fit_memory(job, prediction, limit.bytes), limit, job.num_ranks, job.options.global_batch};
}

std::string to_text(const JobFit& fit) {
  const std::string limit = fmt::format("{} ({})", format_bytes(fit.limit.bytes), fit.limit.source);
  if (fit.fits())
    return fmt::format("fits: {} of {}; the peak is in {}", format_bytes(fit.peak_bytes), limit, fit.action);
  return fmt::format("the job does not fit: a rank needs {} ({}), in {}, and may use {}; {}",
                     format_bytes(fit.peak_bytes), to_string(fit.at_peak), fit.action, limit,
                     describe_remedy(fit));
}

std::string describe_remedy(const JobFit& fit) {
  if (!fit.remedy) return nothing_fits(fit);
  return fmt::format("with {}{} it fits, in {} a rank", describe_as_keys(fit.remedy->changes), placement(fit),
                     format_bytes(fit.remedy->peak_bytes));
}

StepPrediction check_memory(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks,
                            int num_ranks, int rank, const MemoryLimit& limit) {
  const PlannedJob job = planned_job(config, blocks, num_ranks);
  StepPrediction prediction = predict_step(job.blocks, job.options, job.sample, num_ranks, rank);
  const JobFit fit = fit_memory(job, prediction, limit);
  if (!fit.fits()) throw Error(ErrorCode::kInvalidInput, to_text(fit));
  return prediction;
}

}  // namespace trireme

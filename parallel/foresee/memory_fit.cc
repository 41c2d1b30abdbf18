#include "parallel/foresee/memory_fit.h"

namespace trireme {

MemoryFit fit_memory(const PlannedJob& job, const StepPrediction& prediction, std::int64_t limit_bytes) {
  MemoryFit fit{.limit_bytes = limit_bytes,
                .peak_bytes = prediction.memory.device_peak,
                .at_peak = prediction.memory.at_device_peak,
                .action = prediction.describe(prediction.device_peak_action())};
  if (fit.fits()) return fit;
  fit.remedy = find_remedy(job, limit_bytes);
  if (!fit.remedy) fit.smallest = smallest_layout(job);
  return fit;
}

MemoryFit fit_memory(const PlannedJob& job, std::int64_t limit_bytes) {
  return fit_memory(job, predict_largest_step(job.blocks, job.options, job.sample, job.num_ranks),
                    limit_bytes);
}

}  // namespace trireme

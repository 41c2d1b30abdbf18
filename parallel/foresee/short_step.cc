#include "parallel/foresee/short_step.h"

namespace trireme {

PlannedJob short_step(PlannedJob job, std::int64_t fewest) {
  EngineOptions& options = job.options;
  const Mesh mesh = mesh_of(job.num_ranks, options.pipeline.stages, options.tensor);
  const std::int64_t a_round = options.micro_batch * mesh.size(Axis::kData);
  if (options.global_batch % a_round != 0) return job;
  const std::int64_t stages = options.pipeline.stages, rounds = options.global_batch / a_round;
  std::int64_t fewer = rounds;
  const auto shows_all = [&](std::int64_t n) {
    return n >= fewest && (rounds % stages != 0 || n % stages == 0);
  };
  // Half of the micro-batches leave as many partial sums.
  while (fewer % 2 == 0 && shows_all(fewer / 2)) fewer /= 2;
  options.global_batch = a_round * fewer;
  return job;
}

}  // namespace trireme

// A step with fewer micro-batches, in place of one whose micro-batches do the same again and again.
#pragma once

#include <cstdint>

#include "parallel/foresee/predict.h"

namespace trireme {

/// The job with `fewest` micro-batches on each data rank, or somewhat more: a whole number of times the
/// stages where it has that, and as many partial sums on every rank, each of which is exchanged on its own:
/// see [Note: canonical reduction]. The job itself where its micro-batches cannot be halved, or do not divide
/// by the data ranks. Its ranks need no more memory than those of the job.
PlannedJob short_step(PlannedJob job, std::int64_t fewest);

}  // namespace trireme

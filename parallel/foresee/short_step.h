// A shorter step with fewer micro-batches that represents a step whose micro-batches all do the same.
#pragma once

#include <cstdint>

#include "parallel/foresee/predict.h"

namespace trireme {

/// The requirement on a step with fewer micro-batches.
enum class Shortened {
  kAsWhole,   // exchanges the same number of partial sums as the whole step
  kNoLonger,  // exchanges the same number or fewer, so it may be shorter, and takes no more of anything
};

/// The job with `fewest` micro-batches on each data rank, or somewhat more: a multiple of the number of
/// stages if the job has one, and unequal numbers on the ranks if the job has them.
///
/// [Note: partial sums of a short step] The partial sums of a rank's micro-batches are exchanged one by one
/// (see [Note: canonical reduction]), so a step cannot be shortened arbitrarily. Halving an even number
/// leaves the same number of partial sums on every rank. An odd number, and a number that differs between
/// ranks, is replaced by the smallest number that leaves the same rounds of exchanges (the maximum of partial
/// sums over ranks) and about the same total of partial sums. If there is none, the job is returned
/// unchanged. Its ranks need no more memory than the ranks of the job.
PlannedJob short_step(PlannedJob job, std::int64_t fewest, Shortened shortened);

}  // namespace trireme

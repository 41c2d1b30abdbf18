// A step with fewer micro-batches, in place of one whose micro-batches do the same again and again.
#pragma once

#include <cstdint>

#include "parallel/foresee/predict.h"

namespace trireme {

/// What a step with fewer micro-batches stands for.
enum class Shortened {
  kAsWhole,   // exchanges as many partial sums as the whole one
  kNoLonger,  // or fewer: it may be shorter, and takes no more of anything
};

/// The job with `fewest` micro-batches on each data rank, or somewhat more: a whole number of times the
/// stages where it has that, and unequally many on the ranks where it has that.
///
/// [Note: partial sums of a short step] The partial sums of a rank's micro-batches are exchanged one by one
/// (see [Note: canonical reduction]), so a step cannot be shortened at will. Half of an even number leaves
/// equally many on every rank. An odd number, and one that is not the same on all ranks, gives way to the
/// smallest that leaves as many rounds of exchanges (the most partial sums of any rank) and about as many
/// partial sums of all ranks together. The job itself where there is none. Its ranks need no more memory than
/// those of the job.
PlannedJob short_step(PlannedJob job, std::int64_t fewest, Shortened shortened);

}  // namespace trireme

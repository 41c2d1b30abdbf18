// The candidates of a layout search: [Note: search of layouts] in layout_search.h.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/foresee/predict.h"

namespace trireme {

/// Everything that a search of layouts may vary.
struct LayoutCandidate {
  Layout layout;
  std::int64_t micro_batch = 1;
  double bound_ms = 0;  // set_block_bounds()

  PlannedJob of(PlannedJob job) const {
    job.options.layout = layout;
    job.options.micro_batch = micro_batch;
    return job;
  }
};

/// The candidates for a job on `job.num_ranks` ranks: every value of the fields in `open`, and the job's
/// value of the others. Without the choices of accumulation. The micro-batch varies if `varies_micro_batch`.
/// Of two layouts that differ in one field, the simpler one comes first.
std::vector<LayoutCandidate> layout_candidates(const PlannedJob& job, const OpenFields& open,
                                               bool varies_micro_batch);

/// Micro-batches of the data rank with the most; 0: some rank would have none.
std::int64_t rounds_of(const PlannedJob& job);

}  // namespace trireme

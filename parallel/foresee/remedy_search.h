// Searches the layouts of a job for one that needs less memory, without an allocation of the model's size.
//
// [Note: order of remedies] Changes are tried from cheap to expensive, and the first that fits is returned:
//   1. A smaller data cache.
//   2. A larger `zero` (more messages). Along with it, accumulate_unsharded and keep_gathered are dropped,
//     in the order of [Note: order of accumulation].
//   3. `sequence`, if tensor ranks can share it (two more gathers per block).
//   4. `recompute_every` (a third more work; longer segments first).
//   5. A larger `tensor`, if the model has chunks (four sums of a block's activations per micro-batch, for
//     which the block waits).
//   6. A smaller `micro_batch` (smaller matmuls fill the device less).
//   7. More ranks (they cost money): every number that shares the micro-batches evenly, in ascending order.
// A more expensive change is tried together with the cheaper ones. No change alters the results, except that
// a different micro-batch rounds differently.
//
// A layout is predicted up to the first byte beyond the limit, with a step of few micro-batches first. A
// layout that does not fit is mostly rejected after the parameters, or after the first forward. Some thousand
// layouts of 13e9 parameters take seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/foresee/remedy.h"

namespace trireme {

/// A changed job that fits.
struct Remedy {
  PlannedJob job;
  std::vector<Change> changes;
  std::int64_t peak_bytes = 0;  // per rank
};

/// The layout that needs the least memory, if none fits.
struct SmallestLayout {
  std::vector<Change> changes;
  std::int64_t peak_bytes = 0;  // per rank
  std::string action;           // at the peak: "Backward unit 3 (head) micro-batch 0"
  std::string block;  // block in whose action the most memory besides the model's state is alive; or ""
  std::string block_action;      // that action
  std::int64_t block_bytes = 0;  // that memory: activations, batch and exchanged buffers
};

/// The first remedy, in the order of the note, for a job that needs more than `limit_bytes` on a rank. Empty
/// if no layout fits.
std::optional<Remedy> find_remedy(const PlannedJob& job, std::int64_t limit_bytes);

/// The smallest of all these layouts.
SmallestLayout smallest_layout(const PlannedJob& job);

}  // namespace trireme

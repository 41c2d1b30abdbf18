// Searches the layouts of a job for one that needs less memory, without an allocation of the model's size.
//
// [Note: order of remedies] Changes are tried from cheap to expensive, and the first that fits is told: a
// smaller data cache, then a larger `zero` (more messages; with it what accumulate_unsharded and
// keep_gathered keep over the micro-batches of a step is given up, in the order of [Note: order of
// accumulation]), then `sequence`, where tensor ranks can share it (two gathers more a block), then
// `recompute_every` (a third more work; longer segments first), then a larger `tensor`
// where the model has chunks (four sums of a block's activations a micro-batch, which it waits for), then a
// smaller `micro_batch` (matmuls that fill the device less), then more ranks (they cost money; every number
// that shares the micro-batches evenly, in ascending order). A more expensive change is tried together with
// the cheaper ones. None of them changes the results, except that a different micro-batch rounds differently.
//
// A layout is predicted up to the first byte beyond the limit, a step of few micro-batches first: what does
// not fit is mostly known after the parameters, or the first forward. Some thousand layouts of 13e9
// parameters take seconds.
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
  std::int64_t peak_bytes = 0;  // of a rank
};

/// If none fits: the layout that needs least.
struct SmallestLayout {
  std::vector<Change> changes;
  std::int64_t peak_bytes = 0;   // of a rank
  std::string action;            // when: "Backward unit 3 (head) micro-batch 0"
  std::string block;             // beside whose run most is alive that is no state of the model; or ""
  std::string block_action;      // when
  std::int64_t block_bytes = 0;  // of it: activations, batch and exchanged buffers
};

/// The first remedy in the order of the note for a job that needs more than `limit_bytes` on a rank; nothing
/// where no layout fits.
std::optional<Remedy> find_remedy(const PlannedJob& job, std::int64_t limit_bytes);

/// Of all these layouts, the smallest.
SmallestLayout smallest_layout(const PlannedJob& job);

}  // namespace trireme

// The fastest cut of a job into stages whose predicted memory fits.
//
// [Note: search of cuts] The fastest cut of all is tried first. Where a rank of a stage needs more than it
// may use, every cut that fits gives one of the rank's chunks other blocks; each of these cases, a chunk
// without that range of blocks, gets its own fastest cut by dynamic programming, and the fastest cut of all
// open cases is tried next. So the first one that fits is the fastest. Blocks of one kind need the same
// memory wherever they lie: a refused range refuses all others of these kinds, and, as a chunk needs no less
// with more blocks, all that hold one. With one chunk a rank there is a single case, and bisection finds the
// shortest range to refuse: 402 blocks in 16 stages take fewer than 20 cuts.
//
// Segments that are recomputed may need less with a block more: there only equal ranges are refused, until
// half of the search is over. Its length is bounded in predictions and in cuts; from half of it on a single
// case is followed, in which no chunk of a stage that is too large gets longer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "parallel/foresee/predict.h"
#include "parallel/foresee/stage_cut.h"

namespace trireme {

/// A cut and the stage with the rank that needs most.
struct CutNeed {
  StageMap cut;
  int stage = 0;
  std::int64_t bytes = -1;  // of that rank
};

struct MemoryCut {
  std::optional<StageMap> cut;  // the fastest that fits; empty where none was found
  bool is_fastest = true;       // the search was whole: no cut that fits is faster
  CutNeed fastest;              // of all cuts, whether it fits or not
  CutNeed closest;              // of the cuts that were tried, the one whose largest stage is smallest
};

/// The question about memory, apart from the job.
struct CutQuestion {
  std::vector<double> costs;  // of each block, in any unit
  int pipeline = 1, chunks = 1;
  std::vector<int> kinds;                                             // of each block
  std::function<std::int64_t(const StageMap& cut, int stage)> bytes;  // of the stage's largest rank
  std::int64_t limit_bytes = 0;
  bool grows = true;                    // a chunk needs no less with more blocks
  std::size_t most_predictions = 2000;  // how often `bytes` may be asked
};
MemoryCut cut_within_memory(const CutQuestion& question);

/// The fastest cut of `job` into options.pipeline.stages x chunks, by what each block costs (see
/// time_costs(), work_costs()), that fits into `limit_bytes` of a rank. options.pipeline.cut is ignored. A
/// function of its arguments alone. See [Note: search of cuts].
MemoryCut cut_within_memory(const PlannedJob& job, const std::vector<double>& costs,
                            std::int64_t limit_bytes);

/// Where none was found to fit: a cut whose largest stage is smaller than that of `closest`, if a few further
/// searches between the limit and its bytes find one.
CutNeed closest_cut(const PlannedJob& job, const std::vector<double>& costs, std::int64_t limit_bytes,
                    CutNeed closest);

}  // namespace trireme

// The fastest cut of a job into stages whose predicted memory fits.
//
// [Note: search of cuts] The fastest cut of all is tried first. While a rank of some stage needs more than it
// may use, bisection finds the shortest chunk with which it still does; chunks that hold that range, or one
// of the same kinds of blocks, are refused, and dynamic programming finds the fastest cut without them. 402
// blocks in 16 stages take fewer than 20 cuts. With one chunk a rank the first cut that fits is the fastest
// that does. With several, and where a longer segment that is recomputed may need less, more is refused than
// has to be: the cut is then good, not always the best, and one that fits may be missed.
#pragma once

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
  bool is_fastest = true;       // no cut that fits is faster; without a cut: none fits
  CutNeed fastest;              // of all cuts, whether it fits or not
  CutNeed closest;              // of the cuts that were tried, the one whose largest stage is smallest
};

/// The inputs of a search for a cut that fits, beside the job.
struct CutQuestion {
  std::vector<double> costs;  // of each block, in any unit
  int pipeline = 1, chunks = 1;
  std::vector<int> kinds;                                             // of each block
  std::function<std::int64_t(const StageMap& cut, int stage)> bytes;  // of the stage's largest rank
  std::int64_t limit_bytes = 0;
  bool grows = true;  // a chunk needs no less with more blocks
};
MemoryCut cut_within_memory(const CutQuestion& question);

/// The fastest cut of `job` into options.layout.pipeline x chunks, by what each block costs (see
/// time_costs(), work_costs()), that fits into `limit_bytes` of a rank. options.layout.cut is ignored. A
/// function of its arguments alone. See [Note: search of cuts].
MemoryCut cut_within_memory(const PlannedJob& job, const std::vector<double>& costs,
                            std::int64_t limit_bytes);

/// The same for a search over many layouts: gives up at once where the stages of the fastest cut need more
/// than may_be_cut_within() lets them.
std::optional<StageMap> likely_cut_within_memory(const PlannedJob& job, const std::vector<double>& costs,
                                                 std::int64_t limit_bytes);

/// True if stages that need so many bytes each may fit into `limit_bytes` with another cut.
///
/// [Note: what a cut can move] A stage whose blocks need b bytes holds limit / b times as many of them within
/// the limit. If that is fewer blocks of all stages together than they have, no cut fits, where blocks are
/// alike: the limit is below the harmonic mean of what stages need. (Not the arithmetic one: a first stage
/// keeps more micro-batches than a last one, and blocks moved to that need less.)
bool may_be_cut_within(const std::vector<std::int64_t>& bytes, std::int64_t limit_bytes);

/// If none fits: a cut whose largest stage is smaller than that of `closest`, if a few further searches
/// between the limit and its bytes find one.
CutNeed closest_cut(const PlannedJob& job, const std::vector<double>& costs, std::int64_t limit_bytes,
                    CutNeed closest);

}  // namespace trireme

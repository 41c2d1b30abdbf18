// The fastest cut of a job into stages whose predicted memory fits.
//
// [Note: search of cuts] The fastest cut of all is tried first. While a rank of some stage exceeds its limit,
// bisection finds the shortest chunk with which it still does. Chunks that contain this range, or one of the
// same kinds of blocks, are refused, and dynamic programming finds the fastest cut without them. 402 blocks
// in 16 stages take fewer than 20 cuts. With one chunk per rank the first cut that fits is the fastest that
// does. With several chunks, or if a longer recompute segment may need less, too much may be refused. Then
// the cut is good, but not always the best, and a cut that fits may be missed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "parallel/foresee/predict.h"
#include "parallel/layout/stage_cut.h"

namespace trireme {

/// A cut, and its stage with the rank that needs most.
struct CutNeed {
  StageMap cut;
  int stage = 0;
  std::int64_t bytes = -1;  // of that rank
};

struct MemoryCut {
  std::optional<StageMap> cut;  // the fastest that fits; empty if none was found
  bool is_fastest = true;       // no cut that fits is faster; without a cut: none fits
  CutNeed fastest;              // of all cuts, whether or not it fits
  CutNeed closest;              // among the tried cuts, the one whose largest stage is smallest
};

/// Inputs of a search for a cut that fits, besides the job.
struct CutQuestion {
  std::vector<double> costs;  // per block, in any unit
  int pipeline = 1, chunks = 1;
  std::vector<int> kinds;                                             // per block
  std::function<std::int64_t(const StageMap& cut, int stage)> bytes;  // of the stage's largest rank
  std::int64_t limit_bytes = 0;
  bool grows = true;  // true: a chunk with more blocks needs no less memory
};
MemoryCut cut_within_memory(const CutQuestion& question);

/// The fastest cut of `job` into options.layout.pipeline x chunks that fits into `limit_bytes` of a rank,
/// given the cost of each block (see time_costs(), work_costs()). options.layout.cut is ignored. A pure
/// function. See [Note: search of cuts].
MemoryCut cut_within_memory(const PlannedJob& job, const std::vector<double>& costs,
                            std::int64_t limit_bytes);

/// True if stages that need these bytes may fit into `limit_bytes` with another cut.
///
/// [Note: what a cut can move] A stage whose blocks need b bytes can hold limit / b times its blocks within
/// the limit. If these are fewer blocks than all stages together have, no cut fits, provided blocks are
/// alike: the limit is below the harmonic mean of the stages' needs. (The arithmetic mean would be wrong: a
/// first stage keeps more micro-batches than a last one, so blocks that move to the last stage need less.)
bool may_be_cut_within(const std::vector<std::int64_t>& bytes, std::int64_t limit_bytes);
/// The same for the stages of the fastest cut of `job`.
bool may_be_cut_within(const PlannedJob& job, const std::vector<double>& costs, std::int64_t limit_bytes);

/// If no cut fits: a cut whose largest stage is smaller than in `closest`, if a few more searches between the
/// limit and its bytes find one.
CutNeed closest_cut(const PlannedJob& job, const std::vector<double>& costs, std::int64_t limit_bytes,
                    CutNeed closest);

}  // namespace trireme

// Cuts a model's blocks into pipeline stages: neighbouring blocks, at least one per chunk.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "parallel/layout/stage_map.h"
#include "runtime/block.h"

namespace trireme {

/// Cuts the blocks into pipeline * chunks chunks so that the largest cost of a chunk is as small as possible.
/// `costs`: per block, in any unit. A chunk's cost is the sum over its blocks in order. Of equally good cuts,
/// returns the most even one (least sum of squares); of equally even ones, the one with the shortest first
/// chunk, then second chunk and so on, because early stages keep most micro-batches alive.
///
/// [Note: slowest chunk] The largest cost of a *rank* (the sum of its chunks) is not minimised, because an
/// interleaved schedule waits for every chunk that is longer than its neighbours. Simulation: 48 blocks with
/// times that differ by 2 %, 4 ranks x 2 chunks, 32 micro-batches. Minimising ranks lowers the largest sum by
/// 2 %, but the step takes 566 ms, against 428 ms; with a head as long as 8 blocks, 649 against 503 ms.
///
/// Throws as StageMap::even().
StageMap cut_evenly(const std::vector<double>& costs, int pipeline, int chunks = 1);

/// True if a chunk may not hold blocks [first, last).
using RangeRefused = std::function<bool(int first, int last, int chunk)>;

/// The same for cuts without refused ranges; null if there is no such cut.
std::optional<StageMap> cut_evenly_without(const RangeRefused& refused, const std::vector<double>& costs,
                                           const StageCounts& counts);

/// The cost of each chunk.
std::vector<double> chunk_costs(const StageMap& stages, const std::vector<double>& costs);

/// Parameters of each block. A tied parameter counts in every block that uses it, as each stage holds it.
std::vector<double> parameter_costs(const BlockList& blocks);

}  // namespace trireme

// Cuts a model's blocks into pipeline stages: neighbouring blocks, at least one per chunk.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "parallel/layout/stage_map.h"
#include "runtime/block.h"

namespace trireme {

/// The cut into pipeline * chunks chunks whose most expensive chunk is cheapest. `costs` are the costs of the
/// blocks, in any unit; a chunk's cost is the sum of its blocks' in order. Among equally good cuts it is the
/// most even one (least sum of squares), then the one whose first chunk is shortest, then the second: early
/// stages keep most micro-batches alive.
///
/// [Note: slowest chunk] The most expensive *rank* (the sum of its chunks) is not minimised, because an
/// interleaved schedule waits for every chunk that is longer than its neighbours. In a simulation of 48
/// blocks whose times differ by 2 %, on 4 ranks x 2, with 32 micro-batches, the best sums of ranks (2 % less)
/// gave a step of 566 ms, the best chunks one of 428 ms; with a head of 8 blocks' time 649 and 503 ms.
///
/// Throws as StageMap::even().
StageMap cut_evenly(const std::vector<double>& costs, int pipeline, int chunks = 1);

/// True if a chunk may not hold blocks [first, last).
using RangeRefused = std::function<bool(int first, int last, int chunk)>;

/// The same cut without the refused ranges; empty if there is none.
std::optional<StageMap> cut_evenly_without(const RangeRefused& refused, const std::vector<double>& costs,
                                           const StageCounts& counts);

/// The cost of each chunk.
std::vector<double> chunk_costs(const StageMap& stages, const std::vector<double>& costs);

/// Parameters of each block. A tied parameter counts in every block that uses it, as each stage holds it.
std::vector<double> parameter_costs(const BlockList& blocks);

}  // namespace trireme

// Times each block forward and backward on the real device: a short profile, for cutting a model
// into stages and for pictures of schedules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/layout/parameter_rules.h"
#include "runtime/block.h"
#include "runtime/data/dataset.h"
#include "runtime/tape.h"

namespace trireme {

struct BlockTime {
  std::string block;  // its name
  double forward_ms = 0.0;
  double backward_ms = 0.0;

  double total_ms() const { return forward_ms + backward_ms; }
};

struct BlockTimesOptions {
  Device device;
  int threads = 1;
  std::optional<std::int64_t> memory_limit;
  Precision precision;
  Recompute recompute = Recompute::kNone;
  int repeats = 3;  // after one that is not counted, or more, up to 100 ms in all; the fastest counts
};

/// Runs every block forward and backward on one micro-batch, each on its own: no more than one block's
/// parameters are held at a time, so the model need not fit. Blocks of the same class whose parameters and
/// inputs have the same shapes are measured once. Times of tasks on an otherwise idle device; the parameters
/// are fresh and nothing of them is kept.
///
/// Throws what the blocks throw, with the block's name in front, and Error(kInvalidInput) for repeats < 1.
std::vector<BlockTime> measure_block_times(const BlockList& blocks, const HostBatch& batch,
                                           const BlockTimesOptions& options);

/// True if two blocks do the same work on equal inputs: the same class and variant, and equal shapes of
/// parameters.
bool is_twin(const Block& a, const Block& b);
/// [block] the first block that is its twin and has the same parameters frozen.
std::vector<int> kinds_of(const BlockList& blocks, const ParameterRules& rules);

/// Milliseconds of each block, forward and backward together: for cut_evenly().
std::vector<double> time_costs(const std::vector<BlockTime>& times);

}  // namespace trireme

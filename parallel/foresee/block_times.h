// Times each block forward and backward on the real device: a short profile, for cutting a model into stages
// and for drawing schedules.
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
  int repeats = 3;  // after one warm-up, or more, up to 100 ms in total; the fastest counts
};

/// Runs every block separately, forward and backward, on one micro-batch. Only one block's parameters are
/// held at a time, so the model need not fit. Blocks of the same class whose parameters and inputs have the
/// same shapes are measured once. Times hold for an otherwise idle device. Parameters are freshly initialised
/// and discarded.
///
/// Throws the blocks' errors with the block's name in front, and Error(kInvalidInput) for repeats < 1.
std::vector<BlockTime> measure_block_times(const BlockList& blocks, const HostBatch& batch,
                                           const BlockTimesOptions& options);

/// True if two blocks do the same work on equal inputs: same class and variant, and equal parameter shapes.
bool is_twin(const Block& a, const Block& b);
/// [block]: index of the first twin with the same parameters frozen.
std::vector<int> kinds_of(const BlockList& blocks, const ParameterRules& rules);

/// Milliseconds of each block, forward and backward together: for cut_evenly().
std::vector<double> time_costs(const std::vector<BlockTime>& times);

}  // namespace trireme

// Chooses what ranks keep over a step's micro-batches, in order to send as little as memory allows. The
// choice is made before a run, by running the step on the meta device.
//
// [Note: order of accumulation] With m micro-batches per rank, ZeRO-3 gathers parameters 2 m times per step,
// or once with keep_gathered (2 m - 1 times psi saved). ZeRO-2 and 3 exchange gradients m times, or once with
// accumulate_unsharded (m - 1 times psi saved). So parameters come first: both, parameters alone, gradients
// alone, neither; each sends less than the next. With one micro-batch or one data rank nothing is kept,
// because it would save no exchange.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/run/engine.h"

namespace trireme {

/// `options` with values for the fields of these two that are in `open`: the first choice in the order above
/// whose predicted peak is at most `limit_bytes` on every rank, or the last choice if none fits. A pure
/// function, so ranks with equal arguments agree. Throws as Engine's constructor does.
EngineOptions choose_accumulation(const std::shared_ptr<const BlockList>& blocks, EngineOptions options,
                                  const OpenFields& open, const SampleSpec& sample, int num_ranks,
                                  std::int64_t limit_bytes);

/// `options` with each choice of values, in that order.
std::vector<EngineOptions> accumulation_choices(const EngineOptions& options, const OpenFields& open,
                                                int num_ranks);

/// True if, given the options' ZeRO stage, data ranks and micro-batches, keeping gradients whole (parameters
/// gathered) over a step's micro-batches makes a difference.
bool has_gradients_to_keep(const EngineOptions& options, int num_ranks);
bool has_parameters_to_keep(const EngineOptions& options, int num_ranks);
/// True if data ranks have unequal numbers of micro-batches. Sharded gradients then require
/// accumulate_unsharded: [Note: uneven layouts].
bool is_uneven(const EngineOptions& options, int num_ranks);

}  // namespace trireme

// Chooses what ranks keep over a step's micro-batches so that they send less, where it fits: before a run, by
// running the step on the meta device.
//
// [Note: order of accumulation] With m micro-batches a rank, ZeRO-3 gathers parameters 2 m times a step and
// once with keep_gathered (2 m - 1 times psi saved); ZeRO-2 and 3 exchange gradients m times and once with
// accumulate_unsharded (m - 1 times psi saved). So parameters come first: both, parameters alone, gradients
// alone, neither; each sends less than the next. Nothing is kept of one micro-batch, or by one data rank:
// there is no accumulation that would be cheaper.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/run/engine.h"

namespace trireme {

/// `options` with values for those of the two fields that are in `open`: the first of the order above whose
/// predicted peak is at most `limit_bytes` on every rank, or false where none fits. A pure function, so that
/// ranks with equal arguments agree. Throws as Engine's constructor does.
EngineOptions choose_accumulation(const std::shared_ptr<const BlockList>& blocks, EngineOptions options,
                                  const OpenFields& open, const SampleSpec& sample, int num_ranks,
                                  std::int64_t limit_bytes);

/// `options` with each of the values that are tried, in that order.
std::vector<EngineOptions> accumulation_choices(const EngineOptions& options, const OpenFields& open,
                                                int num_ranks);

/// True if the options' ZeRO stage, data ranks and micro-batches make a difference between keeping gradients
/// whole (parameters gathered) over a step's micro-batches and not.
bool has_gradients_to_keep(const EngineOptions& options, int num_ranks);
bool has_parameters_to_keep(const EngineOptions& options, int num_ranks);
/// True if data ranks have unequally many micro-batches, which wants accumulate_unsharded where gradients are
/// sharded: [Note: uneven layouts].
bool is_uneven(const EngineOptions& options, int num_ranks);

}  // namespace trireme

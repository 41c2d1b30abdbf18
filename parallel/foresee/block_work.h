// Counts the arithmetic of each block on the meta device: what share of the time a stage will take,
// before anything is measured.
#pragma once

#include <vector>

#include "parallel/foresee/stage_cut.h"
#include "parallel/layout/sample_spec.h"
#include "runtime/block.h"

namespace trireme {

/// Floating-point operations of each block's forward for one sample: matrix products, convolutions and
/// attention (causal: half of it). Everything else counts as nothing, and backward as a fixed multiple. Real
/// times differ, most of all where blocks are small.
std::vector<double> count_block_work(const BlockList& blocks, const SampleSpec& sample);

/// The same as costs to cut by: where no block has any arithmetic, all blocks cost the same.
std::vector<double> work_costs(const BlockList& blocks, const SampleSpec& sample);

/// The cut whose chunk with the most arithmetic has as little as can be, as cut_evenly() promises. A function
/// of its arguments alone: every rank finds the same one.
StageMap cut_by_work(const BlockList& blocks, const SampleSpec& sample, int pipeline, int chunks = 1);

}  // namespace trireme

// Counts the arithmetic of each block on the meta device, to estimate a stage's share of the time without a
// measurement.
#pragma once

#include <vector>

#include "parallel/layout/sample_spec.h"
#include "parallel/layout/stage_cut.h"
#include "runtime/block.h"

namespace trireme {

/// Floating-point operations of each block's forward for one sample: matrix products, convolutions and
/// attention (causal: half of it). Other operations count as zero, and backward is a fixed multiple. Real
/// times differ, mostly for small blocks.
std::vector<double> count_block_work(const BlockList& blocks, const SampleSpec& sample);

/// The same as costs for a cut. If no block has any arithmetic, all blocks cost the same.
std::vector<double> work_costs(const BlockList& blocks, const SampleSpec& sample);

/// The cut whose chunk with the most arithmetic has the least possible, as by cut_evenly(). A pure function:
/// every rank computes the same cut.
StageMap cut_by_work(const BlockList& blocks, const SampleSpec& sample, int pipeline, int chunks = 1);

}  // namespace trireme

// [train.lora]: adapters of a model's linear layers. See [Note: adapters] in runtime/adapter.h.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "runtime/block.h"
#include "runtime/checkpoint/merged_model.h"

namespace trireme {

/// The factor of an adapter's output: alpha / rank, or alpha / sqrt(rank) with train.lora.rank_stabilized
/// (rsLoRA, Kalajdzievski 2023).
double adapter_scale(const ModelSection& model);

/// Adds an adapter to each linear layer that a target matches. Throws Error(kInvalidInput) for a target
/// without a match, with the nearest layer name, and for a rank larger than a dim.
void add_adapters(BlockList& blocks, const ModelSection& model);

/// The adapters of a model after add_adapters(), with checkpoint names; no layers if it has none.
SavedAdapters saved_adapters(const ModelSection& model, const BlockList& blocks);

/// ParameterRules::trained of a job with adapters; empty without adapters.
std::vector<std::string> trained_with_adapters(const ModelSection& model);

}  // namespace trireme

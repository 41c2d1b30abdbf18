// [train.lora]: adapters of a model's linear layers. See [Note: adapters] in runtime/adapter.h.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "runtime/block.h"
#include "runtime/checkpoint/merged_model.h"

namespace trireme {

/// Gives each linear layer that a target names an adapter. Throws Error(kInvalidInput) for a target that
/// names none, with the layer whose name is nearest, and for a rank that is larger than a dim.
void add_adapters(BlockList& blocks, const ModelSection& model);

/// Of a model that add_adapters() has adapted, in the names of a checkpoint; without layers where it has
/// none.
SavedAdapters saved_adapters(const ModelSection& model, const BlockList& blocks);

/// ParameterRules::trained of a job with adapters; empty without.
std::vector<std::string> trained_with_adapters(const ModelSection& model);

}  // namespace trireme

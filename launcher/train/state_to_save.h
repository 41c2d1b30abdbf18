// The trainer's state that a run saves in a checkpoint, beside the engine's.
#pragma once

#include <filesystem>
#include <optional>

#include "launcher/train/run_start.h"

namespace trireme {

/// The state after the last step. Only rank 0's result has losses, and only rank 0's is saved. Collective.
/// Throws AgreedError if the ranks' states differ.
RunState state_to_save(const TrainingRun& run, bool evaluation_due);

/// The file of the data's tokenizer, if it has one.
std::optional<std::filesystem::path> tokenizer_model(const TrainingRun& run);

}  // namespace trireme

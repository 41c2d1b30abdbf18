// What a run notes in a checkpoint beside the engine's state.
#pragma once

#include <filesystem>
#include <optional>

#include "launcher/train/run_start.h"

namespace trireme {

/// Of the last step, on each rank as far as it knows it; rank 0's counts. Collective. Throws AgreedError
/// where ranks differ in their state.
RunState state_to_save(const TrainingRun& run, bool evaluation_due);

/// The file of the tokenizer that the data was made with, if it has one.
std::optional<std::filesystem::path> tokenizer_model(const TrainingRun& run);

}  // namespace trireme

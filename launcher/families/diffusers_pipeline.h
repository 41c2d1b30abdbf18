// The files of a pipeline of diffusers beside its network: model_index.json and the scheduler's settings.
#pragma once

#include <filesystem>
#include <optional>

#include "launcher/config/config.h"

namespace trireme {

/// The noise schedule and the target in `folder`/scheduler/scheduler_config.json; null without that file.
/// Throws Error(kUnsupported) naming file and key for schedulers whose network predicts something else, and
/// for noise schedules that are not known here.
std::optional<DiffusionSection> scheduler_of_pipeline(const std::filesystem::path& folder);

/// Writes `folder`/scheduler/scheduler_config.json and, last, model_index.json. With a condition, the
/// pipeline needs a text encoder and an autoencoder, which are left out: their entries are null.
void write_pipeline_files(const JobConfig& config, const std::filesystem::path& folder);

}  // namespace trireme

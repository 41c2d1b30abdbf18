// Data of families that denoise: pictures or latents with noise, their timesteps, and the network's targets.
#pragma once

#include "launcher/data/data_module.h"
#include "runtime/diffusion/noise_schedule.h"

namespace trireme {

extern const DataModule kDiffusionData;

/// Throws Error(kInvalidInput), naming the key, for values of [diffusion] that the model cannot train with.
void check_diffusion(const JobConfig& config);

/// The options of [diffusion].
NoiseSchedule::Options noise_schedule_of(const DiffusionSection& diffusion);

}  // namespace trireme

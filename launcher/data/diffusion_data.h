// Data for jobs that denoise: noised samples, their timesteps, and what the network predicts.
#pragma once

#include "launcher/data/data_module.h"

namespace trireme {

extern const DataModule kDiffusionData;

}  // namespace trireme

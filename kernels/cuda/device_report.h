// What GPUs, driver and libraries this machine has.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

DeviceReport examine_devices();

/// "9.19.0", or empty in a build without cuDNN.
std::string cudnn_version();

}  // namespace trireme::cuda

// The GPUs, driver and libraries of this machine.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "kernels/backend.h"

namespace trireme::cuda {

DeviceReport examine_devices();

/// Explains why no card is usable, and what to do. `result` is cudaErrorInsufficientDriver, cudaErrorNoDevice
/// or another result of looking for a card.
std::string describe_missing_device(cudaError_t result);

}  // namespace trireme::cuda

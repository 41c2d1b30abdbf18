// The GPUs, driver and libraries of this machine.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "kernels/backend.h"

namespace trireme::cuda {

DeviceReport examine_devices();

/// The reason why there is no card to compute on, and what to do: for cudaErrorInsufficientDriver,
/// cudaErrorNoDevice and other results of looking for one.
std::string describe_missing_device(cudaError_t result);

}  // namespace trireme::cuda

// The emulation has one header for both; times of events are asked for through this one.
#pragma once

#include "tests/kernels/cuda/emulation/include/cuda_runtime.h"

inline constexpr unsigned cudaEventDefault = 0;
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to);

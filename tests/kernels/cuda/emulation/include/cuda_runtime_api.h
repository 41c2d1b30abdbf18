// The emulation has one header for both APIs.
#pragma once

#include "tests/kernels/cuda/emulation/include/cuda_runtime.h"

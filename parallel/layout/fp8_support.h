// Whether a backend multiplies in fp8, asked before the first step.
#pragma once

#include "runtime/context.h"

namespace trireme {

/// Throws Error(kUnsupported) naming Precision::mode where mode fp8 is asked of a device without such
/// products.
void check_fp8(const Context& ctx);

}  // namespace trireme

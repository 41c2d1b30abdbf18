// Whether a backend multiplies in fp8, asked before the first step.
#pragma once

#include "parallel/layout/model_layout.h"
#include "runtime/context.h"

namespace trireme {

/// Throws Error(kUnsupported) naming Precision::mode where mode fp8 is asked of a device without such
/// products, or of a model in tensor chunks, which have no scales.
void check_fp8(const Context& ctx, const ModelLayout& layout);

}  // namespace trireme

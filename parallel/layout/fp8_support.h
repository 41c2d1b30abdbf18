// Checks before the first step that a backend supports fp8 products.
#pragma once

#include "parallel/layout/model_layout.h"
#include "runtime/context.h"

namespace trireme {

/// Throws Error(kUnsupported) naming Precision::mode if the mode is fp8 and the device has no fp8 products,
/// or the model has tensor chunks, which have no scales.
void check_fp8(const Context& ctx, const ModelLayout& layout);

}  // namespace trireme

// 3 x 3 convolutions with fewer multiplications: see [Note: Winograd] in winograd_conv.cc.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/conv/conv_primitives.h"

namespace trireme::cpu {

/// True if minimal filtering computes a convolution of this shape, dtype and mode.
bool takes_winograd(ConvKind kind, const ConvShape& shape, DType dtype, MathMode math);

// `shape` is the shape of the call.
void winograd_conv_fwd(const KernelContext& exec, const ConvShape& shape, const Conv2dFwdArgs& args);
void winograd_conv_bwd_data(const KernelContext& exec, const ConvShape& shape, const Conv2dBwdDataArgs& args);
void winograd_conv_bwd_weight(const KernelContext& exec, const ConvShape& shape,
                              const Conv2dBwdWeightArgs& args);

}  // namespace trireme::cpu

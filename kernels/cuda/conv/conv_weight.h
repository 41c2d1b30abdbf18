// [Note: packed weights] Parameters are [O, C, R, S], as in PyTorch. Images are channels-last, and what reads
// them along their channels wants weights alike: [O, R, S, C]. They are small beside images, so every call
// packs its own.
#pragma once

#include "kernels/cuda/conv/conv_shape.h"

namespace trireme::cuda {

/// Elements of an output in a packed weight without gaps.
inline std::int64_t packed_pitch(const ConvShape& shape) {
  return std::int64_t{shape.kernel_height} * shape.kernel_width * shape.in_group;
}

/// `packed` [O, R, S, C / groups] = `weight` [O, C / groups, R, S], of one dtype; each output of `packed` has
/// `pitch` elements, zeros behind its own. `op` names it in errors. The channels are those of `shape`; where
/// the weight has fewer of them, zeros follow ([Note: padded channels]).
void pack_conv_weight(const KernelContext& exec, const char* op, const ConvShape& shape,
                      ConstTensorView weight, std::int64_t pitch, void* packed);

/// `gradient` [O, C / groups, R, S] fp32 = or += `packed` [O, R, S, C / groups], of which each output has
/// `pitch` elements. The channels of `packed` are those of `shape`; where the gradient has fewer of them, the
/// rest is left out.
void unpack_conv_gradient(const KernelContext& exec, const char* op, const ConvShape& shape,
                          const float* packed, std::int64_t pitch, TensorView gradient, GradientMode mode);

}  // namespace trireme::cuda

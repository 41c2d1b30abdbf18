// [Note: packed weights] Parameters are [O, C, R, S], as in PyTorch. Images are channels-last, and kernels
// that read them along their channels need weights in the same order: [O, R, S, C]. Weights are small
// compared with images, so every call packs its own copy.
#pragma once

#include "kernels/cuda/conv/conv_shape.h"

namespace trireme::cuda {

/// Elements per output of a packed weight without gaps.
inline std::int64_t packed_pitch(const ConvShape& shape) {
  return std::int64_t{shape.kernel_height} * shape.kernel_width * shape.in_group;
}

/// `packed` [O, R, S, C / groups] = `weight` [O, C / groups, R, S], of one dtype. Each output of `packed` has
/// `pitch` elements, padded with zeros. `shape` gives the number of channels. If the weight has fewer, zeros
/// fill the rest ([Note: padded channels]). `op` is the name for errors.
void pack_conv_weight(const KernelContext& exec, const char* op, const ConvShape& shape,
                      ConstTensorView weight, std::int64_t pitch, void* packed);

/// `gradient` [O, C / groups, R, S] fp32 = or += `packed` [O, R, S, C / groups], whose outputs have `pitch`
/// elements each. `shape` gives the number of channels of `packed`. If the gradient has fewer, the rest is
/// dropped.
void unpack_conv_gradient(const KernelContext& exec, const char* op, const ConvShape& shape,
                          const float* packed, std::int64_t pitch, TensorView gradient, GradientMode mode);

}  // namespace trireme::cuda

// Convolutions of few channels on tensor cores.
//
// [Note: windows on tensor cores] The windows of 16-bit images of fewer than 8 channels are too narrow for
// engines that read 16 bytes at a time. Here a block keeps the pixels that its 8 x 16 outputs see in shared
// memory, as they lie in the image, and makes the fragments of tensor cores out of them: a row of a window is
// S C neighbouring elements there. Rows have an even number of factors, the last of an odd one being a zero;
// so two neighbouring factors are one word of shared memory, where windows begin at even elements.
//
// Forward: [128 pixels] x [64 outputs] a block, all factors at a time, rounded once. Weight gradient: a block
// sums the products of its tiles, every so many, and the parts are added in the order of their blocks, whose
// number the shape decides. What is no factor of a window, or no output, is masked to zero and not multiplied
// by one: it may be NaN or infinity. Padding is multiplied, as zeros, as libraries do.
//
// cuDNN 9.19 has an engine for the stem of ResNet (images padded to 4 channels, 405 us forward and 386 us for
// a weight gradient of 16 bits on an H100), and says of it that its sums may be of reduced precision. PyTorch
// takes it; we do not.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// True where takes_window_tiles() of kernels/product_workspace.h is and the card has the instructions.
bool suits_window_tiles(const KernelContext& exec, const Shape& weight, const ConvGeometry& geometry,
                        DType dtype);

/// For what suits_window_tiles() says; y or dy has elements.
void window_conv_fwd(const KernelContext& exec, const Conv2dFwdArgs& args);
void window_conv_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args);

}  // namespace trireme::cuda

// Convolutions of few channels on tensor cores.
//
// [Note: windows on tensor cores] The windows of 16-bit images of fewer than 8 channels are too narrow for
// engines that read 16 bytes at a time. Here a block keeps the pixels that its 8 x 16 outputs see in shared
// memory, as they lie in the image, and makes the fragments of tensor cores out of them: a row of a window is
// S C neighbouring elements there. Each row has an even number of factors, an odd one gets a zero; so a
// fragment's two neighbouring factors are one word of shared memory, where a window begins at an even
// element.
//
// Forward: [128 pixels] x [64 outputs] a block, all factors at a time, rounded once. Weight gradient: a block
// sums the products of its tiles, every so many, and parts are added in the order of their blocks, whose
// number the shape decides. What lies beyond a window or the image is a zero by a mask, not by a product with
// zero: NaN and infinity stay where they are.
//
// Kernels of many factors or large strides, and cards before sm_80, have gathered_conv.h.
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

// Convolutions of few channels on tensor cores.
//
// [Note: windows on tensor cores] The windows of 16-bit images with fewer than 8 channels are too narrow for
// engines that read 16 bytes at a time. Here a block keeps the pixels that its 8 x 16 outputs read in shared
// memory, in image order, and builds tensor core fragments from them. A row of a window is S C neighbouring
// elements there. Rows have an even number of factors; an odd row gets a zero. So if windows begin at even
// elements, two neighbouring factors are one word of shared memory.
//
// Forward: a block computes [128 pixels] x [64 outputs] with all factors at once, and rounds once. Weight
// gradient: a block sums the products of its tiles. The parts are added in the order of their blocks, whose
// number the shape decides. Elements that are no factor of a window, or no output, are masked to zero.
// Multiplying them by zero would not do, because they may be NaN or infinity. Padding is multiplied as zeros,
// as libraries do.
//
// cuDNN 9.19 has an engine for the stem of ResNet (images padded to 4 channels; 405 us forward and 386 us for
// a 16-bit weight gradient on an H100), but marks its sums as possibly of reduced precision. PyTorch uses it;
// Trireme does not.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// True if takes_window_tiles() of kernels/product_workspace.h is true and the card has the instructions.
bool suits_window_tiles(const KernelContext& exec, const Shape& weight, const ConvGeometry& geometry,
                        DType dtype);

/// Requires suits_window_tiles(). y or dy must have elements.
void window_conv_fwd(const KernelContext& exec, const Conv2dFwdArgs& args);
void window_conv_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args);

}  // namespace trireme::cuda

// Images with more channels than they have, for engines that read 16 bytes at a time.
//
// [Note: padded channels] cuDNN has few engines for 16-bit images whose channels are no multiple of 8, and
// none for some gradients of images of odd channels. So images of one group are copied to workspace with
// zeros behind their channels up to the next multiple of 8, the packed weight has the same zeros, and cuDNN
// is asked about that problem. Sums gain products with zero. The zeros' part of a gradient is left out when
// it is copied or unpacked. Where the outputs are no multiple of 8 either, nothing is won, and images stay as
// they are; so they do where cuDNN has nothing for the padded ones. Forward and weight gradient of fewer
// than 8 channels are not cuDNN's: see [Note: windows on tensor cores]. library_channels() in
// kernels/product_workspace.h decides. Backward copies the images again: keeping the copy of forward would
// take its memory for the whole step.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// `padded` [B, H, W, pitch] = `images` [B, H, W, C] of 16 bits and zeros; `pitch` is a multiple of 8 and
/// `padded` of 16 bytes. `op` names it in errors.
void pad_channels(const KernelContext& exec, const char* op, ConstTensorView images, std::int64_t pitch,
                  void* padded);

/// `images` [B, H, W, C] of 16 bits = the first channels of `padded` [B, H, W, pitch], + `addend`, like
/// images, where it is defined; then `padded` is fp32, else of images' dtype. `addend` may be `images`.
void unpad_channels(const KernelContext& exec, const char* op, ConstTensorView padded, ConstTensorView addend,
                    TensorView images);

}  // namespace trireme::cuda

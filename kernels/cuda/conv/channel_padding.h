// Pads images with zero channels, for engines that read 16 bytes at a time.
//
// [Note: padded channels] cuDNN has few engines for 16-bit images whose number of channels is not a multiple
// of 8. It has none for some gradients of images with an odd number of channels. So images of one group are
// copied to workspace and padded with zero channels to the next multiple of 8. The packed weight gets the
// same zeros, and cuDNN is given the padded problem. Sums gain products with zero. The part of a gradient
// that belongs to the padding is dropped when the gradient is copied or unpacked. Images are not padded if
// the number of outputs is not a multiple of 8 either, because that gains nothing, or if cuDNN has no engine
// for the padded problem. Forward and weight gradient of images with fewer than 8 channels do not use cuDNN:
// see [Note: windows on tensor cores]. library_channels() in kernels/product_workspace.h decides. Backward
// copies the images again, because keeping forward's copy would occupy memory for the whole step.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// `padded` [B, H, W, pitch] = 16-bit `images` [B, H, W, C] followed by zeros. `pitch` is a multiple of 8,
/// and `padded` is aligned to 16 bytes. `op` is the name for errors.
void pad_channels(const KernelContext& exec, const char* op, ConstTensorView images, std::int64_t pitch,
                  void* padded);

/// 16-bit `images` [B, H, W, C] = the first channels of `padded` [B, H, W, pitch], plus `addend` if it is
/// defined. `padded` is fp32 with an addend, else of images' dtype. `addend` is like `images` and may be
/// `images`.
void unpad_channels(const KernelContext& exec, const char* op, ConstTensorView padded, ConstTensorView addend,
                    TensorView images);

}  // namespace trireme::cuda

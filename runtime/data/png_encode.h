// PNG encoding with libpng.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/data/image.h"

namespace trireme {

/// The bytes of a PNG file with 8-bit RGB. Throws Error(kInvalidInput) for an image without pixels or of
/// another number of bytes than its size, Error(kRuntime) if libpng fails.
std::vector<std::byte> encode_png(const Image& image);

/// Values [H, W, 3] in [-1, 1], red first, as 8 bits: clamped, and rounded to nearest.
Image image_of(std::span<const float> values, const ImageSize& size);

/// Images of one size in rows of `columns`, with two black pixels around each. Throws Error(kInvalidInput)
/// without images, or if their sizes differ.
Image grid_of(std::span<const Image> images, int columns);

}  // namespace trireme

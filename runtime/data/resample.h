// Scales a part of an image.
#pragma once

#include "runtime/data/image.h"

namespace trireme {

/// A box in pixels, from the upper left corner of the image; a pixel is a square of side 1.
struct ImageBox {
  double x = 0, y = 0, width = 0, height = 0;
};

enum class Mirror : std::uint8_t { kNo, kYes };

/// Writes `box` of the image, scaled to `size`, to `out` [size.height, size.width, 3] fp32, in the image's
/// range of 0 to 255. kYes swaps left and right. Bilinear; if the box is larger than the output, the triangle
/// filter is widened to the extent of an output pixel, so that no input pixel is missed. Outside the image
/// there are no samples: weights are normalised over the pixels inside. The box must lie within the image.
/// Not in place.
void resample(const Image& image, const ImageBox& box, ImageSize size, Mirror mirror, float* out);

}  // namespace trireme

// Scales a part of a picture.
#pragma once

#include "runtime/data/image.h"

namespace trireme {

/// Pixels, from the upper left corner of the picture; a pixel is a square of side 1.
struct ImageBox {
  double x = 0, y = 0, width = 0, height = 0;
};

enum class Mirror : std::uint8_t { kNo, kYes };

/// Writes `box` of the picture, scaled to `size`, to `out` [size.height, size.width, 3] fp32, in the
/// picture's range of 0 to 255; kYes swaps left and right. Bilinear; where the box is larger than the output
/// the triangle is as wide as an output pixel is there, so that no pixel is left out. Beyond the edge of the
/// picture there is nothing: weights are of what is inside. The box lies in the picture. Not in place.
void resample(const Image& image, const ImageBox& box, ImageSize size, Mirror mirror, float* out);

}  // namespace trireme

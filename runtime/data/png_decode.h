// PNG decoding with libpng: a part of image_decode.
#pragma once

#include "runtime/data/image_decode.h"

namespace trireme {

ImageSize read_png_size(const EncodedImage& encoded);
Image decode_png(const EncodedImage& encoded);

}  // namespace trireme

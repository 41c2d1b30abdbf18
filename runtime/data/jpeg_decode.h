// JPEG decoding with libjpeg-turbo: a part of image_decode.
#pragma once

#include "runtime/data/image_decode.h"

namespace trireme {

ImageSize read_jpeg_size(const EncodedImage& encoded);
Image decode_jpeg(const EncodedImage& encoded, int reduction);

}  // namespace trireme

// From the bytes of a JPEG or PNG file to 8-bit RGB. The bytes may be anything: what is damaged, truncated or
// too large ends in a BadImage that names the picture, and memory is bounded by a limit that is checked on
// the header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/error.h"
#include "runtime/data/image.h"

namespace trireme {

/// A picture that cannot be used, whoever reads it and however often: kInvalidInput. (A file that cannot be
/// read at all is a plain Error.)
class BadImage : public Error {
 public:
  explicit BadImage(const std::string& message, std::source_location where = std::source_location::current())
      : Error(ErrorCode::kInvalidInput, message, where) {}
};

/// More than any camera's picture in the common sets; 200 MB decoded.
inline constexpr std::int64_t kDefaultMaxPixels = std::int64_t{1} << 26;

/// Of a side, in pixels: JPEG's limit. A PNG of one column and 67M rows passes a limit of pixels alone, and
/// takes half a minute.
inline constexpr std::int64_t kMaxPictureSide = 65'535;

/// A picture as it is stored. Views the bytes.
struct EncodedImage {
  std::span<const std::byte> bytes;
  std::string name;  // in messages
  std::int64_t max_pixels = kDefaultMaxPixels;
};

/// The size that the header promises. Throws BadImage when the bytes are neither JPEG nor PNG, the header is
/// damaged or promises more than max_pixels or a side above kMaxPictureSide.
ImageSize read_image_size(const EncodedImage& encoded);

/// The picture as RGB. Grey is spread over three channels, CMYK converted without a colour profile (in
/// Adobe's inverted convention, as other readers assume), palettes looked up, 16 bits rounded to 8, an alpha
/// channel dropped. Orientation tags and gamma are not applied. `reduction` 1, 2, 4 or 8: a JPEG is decoded
/// at 1/reduction of its size (rounded up), which is cheaper than decoding all of it; a PNG is decoded whole
/// all the same: see Image::reduction. The same bytes and reduction give the same pixels. Throws BadImage.
Image decode_image(const EncodedImage& encoded, int reduction = 1);

/// For the decoders: throws BadImage unless `size`, as a header promises it, is positive and within
/// max_pixels and kMaxPictureSide.
void check_image_size(const EncodedImage& encoded, ImageSize size);

}  // namespace trireme

// Decodes JPEG and PNG files to 8-bit RGB. Input may be any bytes: damaged, truncated or too large images
// throw a BadImage that names the image. A limit checked on the header bounds the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/error.h"
#include "runtime/data/image.h"

namespace trireme {

/// An image that no reader can decode: kInvalidInput. (A file that cannot be read is a plain Error.)
class BadImage : public Error {
 public:
  explicit BadImage(const std::string& message, std::source_location where = std::source_location::current())
      : Error(ErrorCode::kInvalidInput, message, where) {}
};

/// More than any camera image in common data sets; 200 MB decoded.
inline constexpr std::int64_t kDefaultMaxPixels = std::int64_t{1} << 26;

/// Limit of one side, in pixels, as in JPEG. A PNG of one column and 67M rows is within the pixel limit, and
/// takes half a minute.
inline constexpr std::int64_t kMaxPictureSide = 65'535;

/// An image as stored. Does not own the bytes.
struct EncodedImage {
  std::span<const std::byte> bytes;
  std::string name;  // in messages
  std::int64_t max_pixels = kDefaultMaxPixels;
};

/// The size in the header. Throws BadImage when the bytes are neither JPEG nor PNG, the header is damaged, or
/// it exceeds max_pixels or kMaxPictureSide.
ImageSize read_image_size(const EncodedImage& encoded);

/// The image as RGB. Grey is copied to three channels. CMYK is converted without a colour profile, in Adobe's
/// inverted convention, as in other readers. Palettes are looked up, 16 bits are rounded to 8, and an alpha
/// channel is dropped. Orientation tags and gamma are not applied. `reduction` is 1, 2, 4 or 8: a JPEG is
/// decoded at 1/reduction of its size (rounded up), which is cheaper than full size. A PNG is always decoded
/// at full size: see Image::reduction. The result is a function of bytes and reduction. Throws BadImage.
Image decode_image(const EncodedImage& encoded, int reduction = 1);

/// For the decoders: throws BadImage unless `size` from the header is positive and within max_pixels and
/// kMaxPictureSide.
void check_image_size(const EncodedImage& encoded, ImageSize size);

}  // namespace trireme

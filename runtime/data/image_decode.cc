#include "runtime/data/image_decode.h"

#include <algorithm>
#include <array>

#include "runtime/data/jpeg_decode.h"
#include "runtime/data/png_decode.h"

namespace trireme {
namespace {

enum class Format : std::uint8_t { kJpeg, kPng };

bool begins_with(std::span<const std::byte> bytes, std::span<const std::uint8_t> signature) {
  return bytes.size() >= signature.size() &&
         std::equal(signature.begin(), signature.end(), bytes.begin(),
                    [](std::uint8_t a, std::byte b) { return std::byte{a} == b; });
}

// Detects the format by content, because public data sets contain PNG files named .JPEG.
Format find_format(const EncodedImage& encoded) {
  constexpr std::array<std::uint8_t, 3> kJpeg = {0xFF, 0xD8, 0xFF};
  constexpr std::array<std::uint8_t, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  if (begins_with(encoded.bytes, kJpeg)) return Format::kJpeg;
  if (begins_with(encoded.bytes, kPng)) return Format::kPng;
  if (encoded.bytes.empty()) throw BadImage(fmt::format("picture {} has 0 bytes", encoded.name));
  throw BadImage(fmt::format("picture {} is neither a JPEG nor a PNG: its {} bytes begin with {:#04x}",
                             encoded.name, encoded.bytes.size(), std::to_integer<int>(encoded.bytes[0])));
}

}  // namespace

ImageSize read_image_size(const EncodedImage& encoded) {
  return find_format(encoded) == Format::kJpeg ? read_jpeg_size(encoded) : read_png_size(encoded);
}

Image decode_image(const EncodedImage& encoded, int reduction) {
  TRIREME_CHECK(reduction == 1 || reduction == 2 || reduction == 4 || reduction == 8,
                "a picture can be reduced by 1, 2, 4 or 8, not by {}", reduction);
  return find_format(encoded) == Format::kJpeg ? decode_jpeg(encoded, reduction) : decode_png(encoded);
}

void check_image_size(const EncodedImage& encoded, ImageSize size) {
  if (std::max(size.width, size.height) > kMaxPictureSide) {
    throw BadImage(fmt::format("picture {} has {} x {} pixels, the limit of a side is {}", encoded.name,
                               size.width, size.height, kMaxPictureSide));
  }
  if (size.width > 0 && size.height > 0 && size.num_pixels() <= encoded.max_pixels) return;
  throw BadImage(
      fmt::format("picture {} has {} x {} pixels, the limit is {} in all (EncodedImage::max_pixels)",
                  encoded.name, size.width, size.height, encoded.max_pixels));
}

}  // namespace trireme

// JPEG and PNG files.
#include "runtime/data/image_decode.h"
#include "tests/fuzz/reader.h"
#include "tests/support/picture_files.h"

namespace trireme::fuzz {
namespace {

using testing::encode_jpeg;
using testing::encode_png;
using testing::gradient;

int fuzz_picture(const std::uint8_t* data, std::size_t size) {
  constexpr std::int64_t kMaxPixels = 1 << 16;  // large enough for every path, and quick
  const EncodedImage encoded{
      .bytes = std::as_bytes(std::span(data, size)), .name = "fuzzed", .max_pixels = kMaxPixels};
  taken([&] {
    const ImageSize stored = read_image_size(encoded);
    require(stored.num_pixels() <= kMaxPixels, "a size above the limit was accepted");
    const int reduction = 1 << (size % 4);
    const Image image = decode_image(encoded, reduction);
    require(static_cast<std::int64_t>(image.pixels.size()) == 3 * image.size.num_pixels(),
            "a picture has not the pixels of its size");
  });
  return 0;
}

std::vector<std::string> jpegs() {
  const std::vector<std::uint8_t> grey(9 * 7, 100), cmyk(5 * 6 * 4, 200);
  return {encode_jpeg({.width = 33, .height = 18}, gradient(33, 18)),
          encode_jpeg({.width = 40, .height = 24, .progressive = true}, gradient(40, 24)),
          encode_jpeg({.width = 9, .height = 7, .channels = 1}, grey),
          encode_jpeg({.width = 5, .height = 6, .channels = 4}, cmyk)};
}

std::vector<std::string> pngs() {
  return {
      encode_png({.width = 13, .height = 9}, gradient(13, 9)),
      encode_png({.width = 13, .height = 9, .interlaced = true}, gradient(13, 9)),
      encode_png({.width = 4, .height = 3, .color_type = 0, .bit_depth = 16},
                 std::vector<std::uint8_t>(24, 7)),
      encode_png({.width = 8, .height = 2, .color_type = 3, .bit_depth = 1, .palette = {1, 2, 3, 9, 8, 7}},
                 {0xA5, 0x5A}),
      encode_png({.width = 3, .height = 2, .color_type = 6}, std::vector<std::uint8_t>(24, 50))};
}

}  // namespace

const Reader kJpeg{"jpeg", fuzz_picture, jpegs};
const Reader kPng{"png", fuzz_picture, pngs};

}  // namespace trireme::fuzz

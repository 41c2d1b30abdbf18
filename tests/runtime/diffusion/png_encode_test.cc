#include "runtime/data/png_encode.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/data/image_decode.h"

namespace trireme {
namespace {

Image gradient_image(int width, int height, int start) {
  Image image;
  image.size = {.width = width, .height = height};
  for (int i = 0; i < 3 * width * height; ++i) {
    image.pixels.push_back(static_cast<std::uint8_t>((start + 7 * i) % 256));
  }
  return image;
}

TEST(PngEncode, IsDecodedToTheSamePixels) {
  for (const auto& [width, height] : {std::pair(1, 1), {5, 3}, {64, 33}}) {
    const Image image = gradient_image(width, height, width);
    const std::vector<std::byte> bytes = encode_png(image);
    const Image decoded = decode_image({.bytes = bytes, .name = "test", .max_pixels = 1 << 20});
    EXPECT_EQ(decoded.size, image.size);
    EXPECT_EQ(decoded.pixels, image.pixels);
  }
  EXPECT_THROW(encode_png(Image{}), Error);
}

TEST(PngEncode, RoundsAndClampsValues) {
  const std::vector<float> values = {-1, 0, 1, -3, 3, 0.5f};
  EXPECT_EQ(image_of(values, {.width = 2, .height = 1}).pixels,
            (std::vector<std::uint8_t>{0, 128, 255, 0, 255, 191}));
  EXPECT_THROW(image_of(values, {.width = 1, .height = 1}), Error);
}

TEST(PngEncode, PlacesImagesInRows) {
  std::vector<Image> images;
  for (int i = 0; i < 3; ++i) images.push_back(gradient_image(4, 5, 10 + i));
  const Image grid = grid_of(images, 2);
  EXPECT_EQ(grid.size, (ImageSize{.width = 14, .height = 16}));
  const auto pixel = [&](int x, int y) { return grid.pixels[static_cast<std::size_t>(3 * (y * 14 + x))]; };
  EXPECT_EQ(pixel(2, 2), 10);
  EXPECT_EQ(pixel(8, 2), 11);
  EXPECT_EQ(pixel(2, 9), 12);
  EXPECT_EQ(pixel(8, 9), 0);
  EXPECT_EQ(pixel(0, 0), 0);
  images.push_back(gradient_image(3, 5, 0));
  EXPECT_THROW(grid_of(images, 2), Error);
}

}  // namespace
}  // namespace trireme

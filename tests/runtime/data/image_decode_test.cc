#include "runtime/data/image_decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>

#include "tests/support/picture_files.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::encode_jpeg;
using testing::encode_png;
using testing::gradient;
using ::testing::HasSubstr;
using testing::message_of;
using Bytes = std::vector<std::uint8_t>;

EncodedImage encoded(const std::string& bytes) {
  return {.bytes = std::as_bytes(std::span(bytes)), .name = "set/cat/1.jpg"};
}

int largest_difference(const Bytes& a, const Bytes& b) {
  EXPECT_EQ(a.size(), b.size());
  int largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST(DecodeJpeg, GivesThePixels) {
  for (const bool progressive : {false, true}) {
    const Bytes pixels = gradient(37, 21);
    const std::string bytes =
        encode_jpeg({.width = 37, .height = 21, .quality = 100, .progressive = progressive}, pixels);
    EXPECT_EQ(read_image_size(encoded(bytes)), (ImageSize{37, 21}));
    const Image image = decode_image(encoded(bytes));
    EXPECT_EQ(image.size, (ImageSize{37, 21}));
    EXPECT_EQ(image.reduction, 1);
    EXPECT_LE(largest_difference(image.pixels, pixels), 6);  // chroma has half the resolution
  }
}

TEST(DecodeJpeg, SpreadsGreyOverThreeChannels) {
  Bytes grey, rgb;
  for (int i = 0; i < 16 * 16; ++i) {
    grey.push_back(static_cast<std::uint8_t>(i));
    for (int c = 0; c < 3; ++c) rgb.push_back(static_cast<std::uint8_t>(i));
  }
  const Image image =
      decode_image(encoded(encode_jpeg({.width = 16, .height = 16, .channels = 1, .quality = 100}, grey)));
  EXPECT_LE(largest_difference(image.pixels, rgb), 2);
}

TEST(DecodeJpeg, ConvertsInks) {
  // Stored inverted: 255 is no ink. R = 255 (1 - C) (1 - K), and so on.
  Bytes inks, rgb;
  for (int i = 0; i < 16 * 16; ++i) {
    inks.insert(inks.end(), {200, 100, 50, 128});
    rgb.insert(rgb.end(), {100, 50, 25});
  }
  const Image image =
      decode_image(encoded(encode_jpeg({.width = 16, .height = 16, .channels = 4, .quality = 100}, inks)));
  EXPECT_LE(largest_difference(image.pixels, rgb), 2);
}

TEST(DecodeJpeg, ReducesBeforeItDecodes) {
  constexpr int kWidth = 67, kHeight = 45;
  const std::string bytes = encode_jpeg({.width = kWidth, .height = kHeight}, gradient(kWidth, kHeight));
  for (const int reduction : {1, 2, 4, 8}) {
    const Image image = decode_image(encoded(bytes), reduction);
    EXPECT_EQ(image.reduction, reduction);
    EXPECT_EQ(image.size,
              (ImageSize{(kWidth + reduction - 1) / reduction, (kHeight + reduction - 1) / reduction}));
    EXPECT_EQ(image.pixels, decode_image(encoded(bytes), reduction).pixels);
    // A pixel is the mean of the pixels that it represents; in a gradient, the middle value.
    for (int y = 0; y < kHeight / reduction; ++y) {
      for (int x = 0; x < kWidth / reduction; ++x) {
        const std::uint8_t* pixel = &image.pixels[static_cast<std::size_t>(y * image.size.width + x) * 3];
        EXPECT_NEAR(pixel[0], (x * reduction + (reduction - 1) / 2.0) * 255 / (kWidth - 1), 8);
        EXPECT_NEAR(pixel[1], (y * reduction + (reduction - 1) / 2.0) * 255 / (kHeight - 1), 8);
      }
    }
  }
  EXPECT_THAT(message_of([&] { decode_image(encoded(bytes), 3); }), HasSubstr("not by 3"));
}

TEST(DecodePng, ColoursAreExact) {
  const Bytes pixels = gradient(13, 9);
  for (const bool interlaced : {false, true}) {
    const std::string bytes = encode_png({.width = 13, .height = 9, .interlaced = interlaced}, pixels);
    EXPECT_EQ(read_image_size(encoded(bytes)), (ImageSize{13, 9}));
    EXPECT_EQ(decode_image(encoded(bytes)).pixels, pixels);
    // A PNG cannot be decoded cheaply at a smaller size.
    EXPECT_EQ(decode_image(encoded(bytes), 2).pixels, pixels);
    EXPECT_EQ(decode_image(encoded(bytes), 2).reduction, 1);
  }
}

TEST(DecodePng, EveryKindBecomesRgb) {
  const auto decoded = [](const testing::PngOptions& options, const Bytes& rows) {
    return decode_image(encoded(encode_png(options, rows))).pixels;
  };
  // Grey with 1 and 8 bits.
  EXPECT_EQ(decoded({.width = 3, .height = 1, .color_type = 0, .bit_depth = 1}, {0b10100000}),
            (Bytes{255, 255, 255, 0, 0, 0, 255, 255, 255}));
  EXPECT_EQ(decoded({.width = 2, .height = 1, .color_type = 0}, {7, 200}), (Bytes{7, 7, 7, 200, 200, 200}));
  // 16 bits are rounded to 8.
  const Bytes grey16 = decoded({.width = 3, .height = 1, .color_type = 0, .bit_depth = 16},
                               {0x80, 0x40, 0xFF, 0xFF, 0x01, 0x01});
  EXPECT_EQ(grey16, (Bytes{128, 128, 128, 255, 255, 255, 1, 1, 1}));
  EXPECT_EQ(decoded({.width = 1, .height = 1, .bit_depth = 16}, {0x12, 0x12, 0xFF, 0x00, 0x00, 0xFF}),
            (Bytes{0x12, 0xFE, 0x01}));
  // A palette, and alpha, which is dropped.
  EXPECT_EQ(decoded({.width = 2, .height = 1, .color_type = 3, .palette = {1, 2, 3, 40, 50, 60}}, {1, 0}),
            (Bytes{40, 50, 60, 1, 2, 3}));
  EXPECT_EQ(decoded({.width = 2, .height = 1, .color_type = 6}, {9, 8, 7, 0, 6, 5, 4, 255}),
            (Bytes{9, 8, 7, 6, 5, 4}));
  EXPECT_EQ(decoded({.width = 2, .height = 1, .color_type = 4}, {9, 0, 8, 255}), (Bytes{9, 9, 9, 8, 8, 8}));
}

TEST(BadPictures, AreNamed) {
  const auto message = [](const std::string& bytes) {
    return message_of([&] { decode_image(encoded(bytes)); });
  };
  EXPECT_EQ(message(""), "picture set/cat/1.jpg has 0 bytes");
  EXPECT_THAT(message("GIF89a"), HasSubstr("set/cat/1.jpg is neither a JPEG nor a PNG"));
  EXPECT_THAT(message("\xFF\xD8\xFF"), HasSubstr("set/cat/1.jpg is not a whole JPEG"));
  EXPECT_THAT(message("\x89PNG\r\n\x1A\n"), HasSubstr("set/cat/1.jpg is not a whole PNG"));
  EXPECT_THROW(decode_image(encoded("")), BadImage);
}

// No part of a truncated file is filled in. A JPEG without its last marker still has all pixels.
TEST(BadPictures, TruncatedOnesAreRefused) {
  const Bytes pixels = gradient(40, 30);
  const std::string files[] = {encode_jpeg({.width = 40, .height = 30}, pixels),
                               encode_jpeg({.width = 40, .height = 30, .progressive = true}, pixels),
                               encode_png({.width = 40, .height = 30}, pixels),
                               encode_png({.width = 40, .height = 30, .interlaced = true}, pixels)};
  for (const std::string& file : files) {
    const Bytes whole = decode_image(encoded(file)).pixels;
    for (std::size_t size = 0; size < file.size(); ++size) {
      const std::string part = file.substr(0, size);
      try {
        EXPECT_EQ(decode_image(encoded(part)).pixels, whole) << size << " of " << file.size();
        EXPECT_GE(size + 16, file.size());
      } catch (const BadImage& error) {
        EXPECT_THAT(error.what(), HasSubstr("set/cat/1.jpg"));
      }
    }
  }
}

TEST(BadPictures, AnyByteMayBeWrong) {
  const Bytes pixels = gradient(24, 17);
  const std::string files[] = {encode_jpeg({.width = 24, .height = 17}, pixels),
                               encode_jpeg({.width = 24, .height = 17, .progressive = true}, pixels),
                               encode_jpeg({.width = 24, .height = 17, .channels = 1}, Bytes(24 * 17, 9)),
                               encode_png({.width = 24, .height = 17}, pixels)};
  int num_refused = 0;
  for (const std::string& file : files) {
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (const int flip : {0xFF, 0x01, 0x20}) {
        std::string damaged = file;
        damaged[at] = static_cast<char>(damaged[at] ^ flip);
        EncodedImage image = encoded(damaged);
        image.max_pixels = 1 << 20;
        try {
          const Image result = decode_image(image, 2);
          EXPECT_EQ(result.pixels.size(), static_cast<std::size_t>(result.size.num_pixels()) * 3);
        } catch (const BadImage&) {
          ++num_refused;
        }
      }
    }
  }
  EXPECT_GT(num_refused, 100);
}

std::int64_t peak_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// A scan of 11 bytes covers all blocks of an image of any size.
TEST(BadPictures, ManyScansAreRefused) {
  const std::string picture =
      encode_jpeg({.width = 8, .height = 8, .channels = 1, .progressive = true}, Bytes(64, 100));
  const auto with_scans = [&](int count) {
    std::string bytes = picture.substr(0, picture.size() - 2);  // without the end marker
    // A table with one code, "0": the rest of the block is zeros.
    bytes += std::string("\xFF\xC4\x00\x14\x10\x01", 6) + std::string(16, '\0');
    // The scan header of component 1 with coefficients 1 to 63 at full precision.
    for (int i = 0; i < count; ++i) bytes += std::string("\xFF\xDA\x00\x08\x01\x01\x00\x01\x3F\x00\x7F", 11);
    return bytes + "\xFF\xD9";
  };
  EXPECT_EQ(decode_image(encoded(with_scans(100))).pixels, decode_image(encoded(picture)).pixels);
  EXPECT_THAT(message_of([&] { decode_image(encoded(with_scans(100'000))); }),
              ::testing::AllOf(HasSubstr("set/cat/1.jpg"), HasSubstr("more than 500 scans")));
}

TEST(BadPictures, LongSidesAreRefusedByTheirHeader) {
  for (const auto& [width, height] : {std::pair(1, 1'000'000), std::pair(65'536, 1)}) {
    const std::string png =
        encode_png({.width = width, .height = height}, {}) + std::string({0, 0, 1, 0}) + "IDAT" + "x";
    EXPECT_THAT(message_of([&] { read_image_size(encoded(png)); }),
                HasSubstr("the limit of a side is 65535"));
    EXPECT_THROW(decode_image(encoded(png)), BadImage);
  }
}

TEST(BadPictures, GiantsAreRefusedByTheirHeader) {
  constexpr int kSide = 20000;
  // A header, and the beginning of the pixels.
  const std::string png =
      encode_png({.width = kSide, .height = kSide}, {}) + std::string({0, 0, 1, 0}) + "IDAT" + "x";
  // The frame header of a JPEG: FF C0, length, precision, height, width.
  std::string jpeg = encode_jpeg({.width = 16, .height = 16}, gradient(16, 16));
  const std::size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  for (const std::size_t at : {frame + 5, frame + 7}) {
    jpeg[at] = static_cast<char>(kSide >> 8);
    jpeg[at + 1] = static_cast<char>(kSide & 0xFF);
  }
  const std::int64_t before = peak_kilobytes();
  for (const std::string& file : {png, jpeg}) {
    EXPECT_THAT(message_of([&] { decode_image(encoded(file), 8); }),
                HasSubstr("set/cat/1.jpg has 20000 x 20000 pixels, the limit is 67108864"));
    EXPECT_THROW(read_image_size(encoded(file)), BadImage);
  }
  EXPECT_LT(peak_kilobytes() - before, 64 * 1024);
}

}  // namespace
}  // namespace trireme

// JPEG and PNG files made in memory, for tests of their readers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::testing {

struct JpegOptions {
  int width = 0, height = 0;
  int channels = 3;  // 1 grey, 3 RGB, 4 CMYK (as stored: 255 is no ink)
  int quality = 95;
  bool progressive = false;
};
/// `pixels` [height, width, channels].
std::string encode_jpeg(const JpegOptions& options, const std::vector<std::uint8_t>& pixels);

struct PngOptions {
  int width = 0, height = 0;
  int color_type = 2;  // as in the file: 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGBA
  int bit_depth = 8;
  bool interlaced = false;
  std::vector<std::uint8_t> palette;  // RGB triples
};
/// `rows`: the stored bytes of all rows (16-bit numbers big-endian, bits from the highest). Fewer rows than
/// `height` leave the file unfinished.
std::string encode_png(const PngOptions& options, const std::vector<std::uint8_t>& rows);

/// A smooth RGB picture [height, width, 3] that JPEG preserves well: red increases to the right, green
/// downwards, blue is `blue`.
std::vector<std::uint8_t> gradient(int width, int height, std::uint8_t blue = 128);

}  // namespace trireme::testing

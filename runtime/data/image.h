// A decoded image: 8-bit RGB in host memory.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

struct ImageSize {
  int width = 0, height = 0;  // pixels
  std::int64_t num_pixels() const { return std::int64_t{width} * height; }
  bool operator==(const ImageSize&) const = default;
};

struct Image {
  ImageSize size;                    // of `pixels`
  int reduction = 1;                 // stored pixels per pixel, in both directions
  std::vector<std::uint8_t> pixels;  // [height, width, 3], red first
};

}  // namespace trireme

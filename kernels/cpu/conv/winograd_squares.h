// The squares into which minimal filtering splits images, for the files of [Note: Winograd]
// (winograd_conv.cc).
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::winograd {

inline constexpr int kIn = WinogradNumerics::kInput, kOut = WinogradNumerics::kOutput;
inline constexpr std::int64_t kPoints = WinogradNumerics::kPoints, kPanel = WinogradPoints::kPanel, kTaps = 9;
inline constexpr std::int64_t kBlock = WinogradNumerics::kWeightBlock;  // channels in a block of the weight
inline constexpr std::int64_t kStrip = 8;                               // rows per product strip
inline constexpr std::int64_t kLine = 16;                               // floats of a cache line

inline const WinogradNumerics& of_machine() {
  return *numerics().winograd;
}

inline std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return ceil_div(n, multiple) * multiple;
}

/// Adds a cache line between points. A power-of-two distance would map them to few cache sets.
inline std::int64_t spread(std::int64_t floats) {
  return floats + kLine;
}

/// The output pixels [images, height, width], split into squares.
struct Squares {
  std::int64_t images, height, width, down, across;

  Squares(std::int64_t images, std::int64_t height, std::int64_t width)
      : images(images),
        height(height),
        width(width),
        down(ceil_div(height, kOut)),
        across(ceil_div(width, kOut)) {}
  std::int64_t count() const { return images * down * across; }

  struct Square {
    std::int64_t image, row, col;  // of its first output pixel
  };
  Square at(std::int64_t index) const {
    const std::int64_t in_image = index % (down * across);
    return {index / (down * across), in_image / across * kOut, in_image % across * kOut};
  }
};

/// Images [images, height, width, channels] whose squares are read or written.
struct Images {
  std::int64_t height, width, channels;

  /// The square of `size` x `size` pixels that begins at (row, col), which may be outside the image.
  WinogradPatch patch(std::int64_t row, std::int64_t col, int size) const {
    const auto inside = [size](std::int64_t at, std::int64_t extent) {
      return static_cast<int>(std::clamp<std::int64_t>(extent - at, 0, size));
    };
    return {.channels = channels,
            .row_pitch = width * channels,
            .first_row = static_cast<int>(std::max<std::int64_t>(0, -row)),
            .end_row = inside(row, height),
            .first_col = static_cast<int>(std::max<std::int64_t>(0, -col)),
            .end_col = inside(col, width)};
  }
  std::int64_t offset(std::int64_t image, std::int64_t row, std::int64_t col) const {
    return ((image * height + row) * width + col) * channels;
  }
};

}  // namespace trireme::cpu::winograd

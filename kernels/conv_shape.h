// The extents of a convolution, which backends use to split the work and as a cache key. `Int` is the integer
// type of their kernels.
#pragma once

#include <fmt/core.h>

#include <cassert>
#include <compare>
#include <string>

#include "kernels/backend_image_ops.h"

namespace trireme {

template <class Int>
struct ConvExtents {
  Int images = 0, height = 0, width = 0, channels = 0;
  Int out_height = 0, out_width = 0, outputs = 0;
  Int kernel_height = 0, kernel_width = 0;
  Int stride = 1, padding = 0, padding_after = 0, groups = 1;
  Int in_group = 0, out_group = 0;  // channels and outputs of one group
  bool has_bias = false;
  auto operator<=>(const ConvExtents&) const = default;

  Int pixels() const { return images * height * width; }
  Int out_pixels() const { return images * out_height * out_width; }
  std::int64_t image_elems() const { return std::int64_t{height} * width * channels; }
  std::int64_t out_image_elems() const { return std::int64_t{out_height} * out_width * outputs; }
  std::int64_t weight_elems() const {
    return std::int64_t{outputs} * kernel_height * kernel_width * in_group;
  }
  std::int64_t products() const { return std::int64_t{out_pixels()} * weight_elems(); }
  std::string text() const {
    return fmt::format("[{}, {}, {}, {}] to {} outputs, kernel {} x {}, stride {}, padding {}{}, groups {}",
                       images, height, width, channels, outputs, kernel_height, kernel_width, stride, padding,
                       padding_after == padding ? "" : fmt::format(" and {}", padding_after), groups);
  }
};

/// Extents of a call with x [B, H, W, C], weight [O, C / groups, R, S] and y [B, H', W', O]. The shapes must
/// match each other and fit `Int`.
template <class Int>
ConvExtents<Int> conv_extents(const Shape& x, const Shape& weight, const Shape& y, const ConvGeometry& g) {
  assert(x.rank() == 4 && weight.rank() == 4 && y.rank() == 4);
  assert(x[0] == y[0] && x[3] == weight[1] * g.groups && y[3] == weight[0]);
  assert(y[1] == g.out_size(x[1], weight[2]) && y[2] == g.out_size(x[2], weight[3]));
  const auto as_int = [](std::int64_t value) { return static_cast<Int>(value); };
  return {.images = as_int(x[0]),
          .height = as_int(x[1]),
          .width = as_int(x[2]),
          .channels = as_int(x[3]),
          .out_height = as_int(y[1]),
          .out_width = as_int(y[2]),
          .outputs = as_int(weight[0]),
          .kernel_height = as_int(weight[2]),
          .kernel_width = as_int(weight[3]),
          .stride = as_int(g.stride),
          .padding = as_int(g.padding),
          .padding_after = as_int(g.end_padding()),
          .groups = as_int(g.groups),
          .in_group = as_int(weight[1]),
          .out_group = as_int(weight[0] / g.groups)};
}

}  // namespace trireme

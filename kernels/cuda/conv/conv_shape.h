// The extents of a convolution, checked to be small enough for 32-bit indices of pixels.
#pragma once

#include <algorithm>
#include <compare>
#include <string>

#include "kernels/backend.h"
#include "runtime/base/error.h"

namespace trireme::cuda {

struct ConvShape {
  int images = 0, height = 0, width = 0, channels = 0;
  int out_height = 0, out_width = 0, outputs = 0;
  int kernel_height = 0, kernel_width = 0;
  int stride = 1, padding = 0, groups = 1;
  int in_group = 0, out_group = 0;  // channels and outputs of a group
  auto operator<=>(const ConvShape&) const = default;

  int pixels() const { return images * height * width; }
  int out_pixels() const { return images * out_height * out_width; }
  std::int64_t weight_elems() const {
    return std::int64_t{outputs} * kernel_height * kernel_width * in_group;
  }
  std::string text() const {
    return fmt::format("[{}, {}, {}, {}] to {} outputs, kernel {} x {}, stride {}, padding {}, groups {}",
                       images, height, width, channels, outputs, kernel_height, kernel_width, stride, padding,
                       groups);
  }
};

/// Of images `x` [B, H, W, C], `weight` [O, C / groups, R, S] and what comes of them, `y`. Throws for 2^31
/// pixels and more.
inline ConvShape conv_shape(const Shape& x, const Shape& weight, const Shape& y,
                            const ConvGeometry& geometry) {
  constexpr std::int64_t kMost = 0x7ffff000;  // room for the last tile
  TRIREME_CHECK(x[0] * x[1] * x[2] <= kMost && y[0] * y[1] * y[2] <= kMost &&
                    weight[2] * weight[3] * std::max(weight[0], weight[1]) <= kMost,
                "conv2d on cuda: {} to {} with a weight of {} has too many pixels; use a smaller micro-batch",
                x.to_string(), y.to_string(), weight.to_string());
  const auto narrow = [](std::int64_t value) { return static_cast<int>(value); };
  return {.images = narrow(x[0]),
          .height = narrow(x[1]),
          .width = narrow(x[2]),
          .channels = narrow(x[3]),
          .out_height = narrow(y[1]),
          .out_width = narrow(y[2]),
          .outputs = narrow(weight[0]),
          .kernel_height = narrow(weight[2]),
          .kernel_width = narrow(weight[3]),
          .stride = narrow(geometry.stride),
          .padding = narrow(geometry.padding),
          .groups = narrow(geometry.groups),
          .in_group = narrow(weight[1]),
          .out_group = narrow(weight[0] / geometry.groups)};
}

}  // namespace trireme::cuda

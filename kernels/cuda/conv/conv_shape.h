// Convolutions whose pixel indices fit 32 bits, as the kernels need.
#pragma once

#include <algorithm>

#include "kernels/conv_shape.h"
#include "runtime/base/error.h"

namespace trireme::cuda {

using ConvShape = ConvExtents<int>;

/// Throws Error(kInvalidInput) if the pixels or the weight have too many elements for 32-bit indices.
inline ConvShape conv_shape(const Shape& x, const Shape& weight, const Shape& y,
                            const ConvGeometry& geometry) {
  constexpr std::int64_t kMost = 0x7ffff000;  // room for the last tile
  TRIREME_CHECK(x[0] * x[1] * x[2] <= kMost && y[0] * y[1] * y[2] <= kMost &&
                    weight[2] * weight[3] * std::max(weight[0], weight[1]) <= kMost,
                "conv2d on cuda: {} to {} with a weight of {} has too many pixels; use a smaller micro-batch",
                x.to_string(), y.to_string(), weight.to_string());
  return conv_extents<int>(x, weight, y, geometry);
}

}  // namespace trireme::cuda

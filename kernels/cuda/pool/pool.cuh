// Shared by the pools: a window that slides over NHWC images. A thread has a few neighbouring channels of a
// pixel.
#pragma once

#include <cassert>

#include "kernels/backend.h"
#include "kernels/cuda/launch.cuh"

namespace trireme::cuda {

struct PoolImages {
  std::int64_t images;
  int channels;
  int height, width, out_height, out_width;  // fewer than 2^31 elements per image
  int window_height, window_width, stride, padding;
};

/// The window slides over `x` [B, H, W, C] and gives `y`.
inline PoolImages pool_images(const Shape& x, const Shape& y, const PoolWindow& window) {
  assert(x.rank() == 4 && y.rank() == 4 && x[0] == y[0] && x[3] == y[3]);
  assert(y[1] == (x[1] + 2 * window.padding - window.height) / window.stride + 1);
  assert(y[2] == (x[2] + 2 * window.padding - window.width) / window.stride + 1);
  constexpr std::int64_t kMost = 0x7fffffff - kThreads;
  TRIREME_CHECK(x[1] * x[2] * x[3] <= kMost && y[1] * y[2] * y[3] <= kMost,
                "a pool on cuda from {} to {}: an image has too many elements", x.to_string(), y.to_string());
  return {.images = x[0],
          .channels = static_cast<int>(x[3]),
          .height = static_cast<int>(x[1]),
          .width = static_cast<int>(x[2]),
          .out_height = static_cast<int>(y[1]),
          .out_width = static_cast<int>(y[2]),
          .window_height = static_cast<int>(window.height),
          .window_width = static_cast<int>(window.width),
          .stride = static_cast<int>(window.stride),
          .padding = static_cast<int>(window.padding)};
}

/// The pixel and the first of the N channels of a thread.
struct PoolPlace {
  std::int64_t image;
  int channel, row, col;
};

/// The grid of kernels whose threads handle one place each: x within an image, y along the images.
template <int N>
dim3 pool_grid(const PoolImages& p, int height, int width) {
  constexpr std::int64_t kMostY = 65535;
  dim3 grid = grid_of(ceil_div(std::int64_t{height} * width * (p.channels / N), kThreads));
  grid.y = static_cast<unsigned>(p.images < kMostY ? p.images : kMostY);
  return grid;
}

/// Calls body(place) for the places of the calling thread, one per image.
template <int N, class Body>
__device__ inline void for_each_place(const PoolImages& p, int height, int width, Body body) {
  const unsigned packs = static_cast<unsigned>(p.channels) / N;  // all of one pixel
  const unsigned thread = blockIdx.x * kThreads + threadIdx.x, pixel = thread / packs;
  const auto row = static_cast<int>(pixel / static_cast<unsigned>(width));
  if (row >= height) return;
  PoolPlace place{.image = blockIdx.y,
                  .channel = static_cast<int>(thread - pixel * packs) * N,
                  .row = row,
                  .col = static_cast<int>(pixel) - row * width};
  for (; place.image < p.images; place.image += gridDim.y) body(place);
}

/// The offset of a place's elements in images of these extents.
__device__ inline std::int64_t offset_of(const PoolImages& p, const PoolPlace& place, int height, int width) {
  return place.image * height * width * p.channels + (place.row * width + place.col) * p.channels +
         place.channel;
}

/// Calls body(offset in x, index within the window) for the pixels of an output's window that are inside the
/// image, in order.
template <class Body>
__device__ inline void for_each_input(const PoolImages& p, const PoolPlace& out, Body body) {
  const std::int64_t image = out.image * p.height * p.width * p.channels;
  for (int r = 0; r < p.window_height; ++r) {
    const int h = out.row * p.stride + r - p.padding;
    if (h < 0 || h >= p.height) continue;
    for (int s = 0; s < p.window_width; ++s) {
      const int w = out.col * p.stride + s - p.padding;
      if (w < 0 || w >= p.width) continue;
      body(image + (h * p.width + w) * p.channels + out.channel, r * p.window_width + s);
    }
  }
}

/// Calls body(offset in y, index within that window) for the outputs whose windows contain an input, in
/// order. Gradients are gathered this way, so no two threads add to the same element.
template <class Body>
__device__ inline void for_each_output(const PoolImages& p, const PoolPlace& in, Body body) {
  const std::int64_t image = in.image * p.out_height * p.out_width * p.channels;
  const int bottom = in.row + p.padding, right = in.col + p.padding;
  const int above = bottom - p.window_height + 1, before = right - p.window_width + 1;
  const int first_row = above > 0 ? (above + p.stride - 1) / p.stride : 0;
  const int first_col = before > 0 ? (before + p.stride - 1) / p.stride : 0;
  for (int i = first_row; i < p.out_height && i * p.stride <= bottom; ++i) {
    for (int j = first_col; j < p.out_width && j * p.stride <= right; ++j) {
      body(image + (i * p.out_width + j) * p.channels + in.channel,
           (bottom - i * p.stride) * p.window_width + right - j * p.stride);
    }
  }
}

}  // namespace trireme::cuda

// Shared by the pools: a window sliding over NHWC images, a thread a few neighbouring channels of a pixel.
#pragma once

#include <cassert>

#include "kernels/backend.h"
#include "kernels/cuda/launch.cuh"

namespace trireme::cuda {

struct PoolImages {
  std::int64_t images, channels;
  int height, width, out_height, out_width;
  int window_height, window_width, stride, padding;
};

/// `x` [B, H, W, C] is what the window slides over, `y` what comes of it.
inline PoolImages pool_images(const Shape& x, const Shape& y, const PoolWindow& window) {
  assert(x.rank() == 4 && y.rank() == 4 && x[0] == y[0] && x[3] == y[3]);
  assert(y[1] == (x[1] + 2 * window.padding - window.height) / window.stride + 1);
  assert(y[2] == (x[2] + 2 * window.padding - window.width) / window.stride + 1);
  return {.images = x[0],
          .channels = x[3],
          .height = static_cast<int>(x[1]),
          .width = static_cast<int>(x[2]),
          .out_height = static_cast<int>(y[1]),
          .out_width = static_cast<int>(y[2]),
          .window_height = static_cast<int>(window.height),
          .window_width = static_cast<int>(window.width),
          .stride = static_cast<int>(window.stride),
          .padding = static_cast<int>(window.padding)};
}

/// The pixel and channels of a thread, N channels a thread.
struct PoolPlace {
  std::int64_t image, channel;
  int row, col;
};

/// False for the threads beyond the last.
template <int N>
__device__ inline bool find_place(const PoolImages& p, int height, int width, PoolPlace& place) {
  const std::int64_t packs = p.channels / N;  // all of one pixel
  std::int64_t rest = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (rest >= p.images * height * width * packs) return false;
  place.channel = rest % packs * N;
  rest /= packs;
  place.col = static_cast<int>(rest % width);
  rest /= width;
  place.row = static_cast<int>(rest % height);
  place.image = rest / height;
  return true;
}

/// Calls body(offset in x, place within the window) for the pixels of an output's window that lie within the
/// image, in order.
template <class Body>
__device__ inline void for_each_input(const PoolImages& p, const PoolPlace& out, Body body) {
  for (int r = 0; r < p.window_height; ++r) {
    const int h = out.row * p.stride + r - p.padding;
    if (h < 0 || h >= p.height) continue;
    for (int s = 0; s < p.window_width; ++s) {
      const int w = out.col * p.stride + s - p.padding;
      if (w < 0 || w >= p.width) continue;
      body(((out.image * p.height + h) * p.width + w) * p.channels + out.channel, r * p.window_width + s);
    }
  }
}

/// Calls body(offset in y, place within that window) for the outputs whose windows hold an input, in order:
/// so gradients are gathered, and nothing is added by two threads.
template <class Body>
__device__ inline void for_each_output(const PoolImages& p, const PoolPlace& in, Body body) {
  const int bottom = in.row + p.padding, right = in.col + p.padding;
  const int above = bottom - p.window_height + 1, before = right - p.window_width + 1;
  const int first_row = above > 0 ? (above + p.stride - 1) / p.stride : 0;
  const int first_col = before > 0 ? (before + p.stride - 1) / p.stride : 0;
  for (int i = first_row; i < p.out_height && i * p.stride <= bottom; ++i) {
    for (int j = first_col; j < p.out_width && j * p.stride <= right; ++j) {
      body(((in.image * p.out_height + i) * p.out_width + j) * p.channels + in.channel,
           (bottom - i * p.stride) * p.window_width + right - j * p.stride);
    }
  }
}

/// The grid that has a thread for every N elements.
template <int N>
dim3 pool_grid(std::int64_t elems) {
  return grid_of(ceil_div(elems / N, kThreads));
}

}  // namespace trireme::cuda

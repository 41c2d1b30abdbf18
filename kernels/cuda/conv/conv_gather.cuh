// The operands of native convolutions, for tile_product.cuh.
#pragma once

#include "kernels/cuda/conv/conv_shape.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/tile_product.cuh"

namespace trireme::cuda {

/// The position of a window: the first element of its image, and its first pixel, which may be padding.
struct WindowPlace {
  std::int64_t image;
  int top, left;
};

/// A pixel of the kernel and a channel of the group.
struct KernelPlace {
  int row, col, channel;
};

__device__ inline WindowPlace window_of(const ConvShape& s, int out_pixel) {
  const int j = out_pixel % s.out_width, rest = out_pixel / s.out_width;
  return {.image = std::int64_t{rest / s.out_height} * s.height * s.width * s.channels,
          .top = rest % s.out_height * s.stride - s.padding,
          .left = j * s.stride - s.padding};
}

/// Element `k` of [R, S, `channels`].
__device__ inline KernelPlace kernel_place(const ConvShape& s, int k, int channels) {
  const int pixel = k / channels;
  return {.row = pixel / s.kernel_width, .col = pixel % s.kernel_width, .channel = k % channels};
}

/// x at the position of the kernel element within the window; zero in the padding.
template <class T>
__device__ inline float image_at(const ConvShape& s, const T* x, int group, const WindowPlace& window,
                                 const KernelPlace& k) {
  const int h = window.top + k.row, w = window.left + k.col;
  if (h < 0 || h >= s.height || w < 0 || w >= s.width) return 0.0f;
  return to_float(
      x[window.image + (std::int64_t{h} * s.width + w) * s.channels + group * s.in_group + k.channel]);
}

/// Operand [out pixels] x [R, S, C]: the windows of x.
template <class T>
struct WindowRows {
  static constexpr bool kAlongDepth = true;
  using Line = WindowPlace;
  using Depth = KernelPlace;
  ConvShape shape;
  const T* x;
  int group;
  __device__ Line line(int m) const { return window_of(shape, m); }
  __device__ Depth depth(int k) const { return kernel_place(shape, k, shape.in_group); }
  __device__ float at(const Line& window, const Depth& k) const {
    return image_at(shape, x, group, window, k);
  }
};

/// The same with lines and depths exchanged.
template <class T>
struct WindowCols {
  static constexpr bool kAlongDepth = false;
  using Line = KernelPlace;
  using Depth = WindowPlace;
  ConvShape shape;
  const T* x;
  int group;
  __device__ Line line(int n) const { return kernel_place(shape, n, shape.in_group); }
  __device__ Depth depth(int pixel) const { return window_of(shape, pixel); }
  __device__ float at(const Line& k, const Depth& window) const {
    return image_at(shape, x, group, window, k);
  }
};

/// Operand [pixels] x [R, S, O]: for each input pixel and kernel pixel, the dy that they contributed to.
template <class T>
struct GradientRows {
  static constexpr bool kAlongDepth = true;
  struct Line {
    std::int64_t image;
    int bottom, right;  // with the padding
  };
  using Depth = KernelPlace;
  ConvShape shape;
  const T* dy;
  int group;
  __device__ Line line(int m) const {
    const int w = m % shape.width, rest = m / shape.width;
    return {.image = std::int64_t{rest / shape.height} * shape.out_height * shape.out_width * shape.outputs,
            .bottom = rest % shape.height + shape.padding,
            .right = w + shape.padding};
  }
  __device__ Depth depth(int k) const { return kernel_place(shape, k, shape.out_group); }
  __device__ float at(const Line& place, const Depth& k) const {
    const int down = place.bottom - k.row, across = place.right - k.col;
    if (down < 0 || across < 0 || down % shape.stride != 0 || across % shape.stride != 0) return 0.0f;
    const int i = down / shape.stride, j = across / shape.stride;
    if (i >= shape.out_height || j >= shape.out_width) return 0.0f;
    return to_float(dy[place.image + (std::int64_t{i} * shape.out_width + j) * shape.outputs +
                       group * shape.out_group + k.channel]);
  }
};

/// Operand [O] x [out pixels]: dy.
template <class T>
struct GradientCols {
  static constexpr bool kAlongDepth = false;
  using Line = int;
  using Depth = int;
  ConvShape shape;
  const T* dy;
  int group;
  __device__ Line line(int o) const { return group * shape.out_group + o; }
  __device__ Depth depth(int pixel) const { return pixel; }
  __device__ float at(Line o, Depth pixel) const {
    return to_float(dy[std::int64_t{pixel} * shape.outputs + o]);
  }
};

/// Operand [O] x [R, S, C] of the packed weight ([Note: packed weights]).
template <class T>
struct WeightByOutput {
  static constexpr bool kAlongDepth = true;
  using Line = std::int64_t;
  using Depth = int;
  ConvShape shape;
  const T* weight;
  int group;
  __device__ Line line(int o) const {
    return std::int64_t{group * shape.out_group + o} * shape.kernel_height * shape.kernel_width *
           shape.in_group;
  }
  __device__ Depth depth(int k) const { return k; }
  __device__ float at(Line first, Depth k) const { return to_float(weight[first + k]); }
};

/// Operand [C] x [R, S, O] of the packed weight.
template <class T>
struct WeightByChannel {
  static constexpr bool kAlongDepth = false;
  using Line = int;
  using Depth = std::int64_t;
  ConvShape shape;
  const T* weight;
  int group;
  __device__ Line line(int c) const { return c; }
  __device__ Depth depth(int k) const {
    const int pixels = shape.kernel_height * shape.kernel_width;
    const int pixel = k / shape.out_group, o = group * shape.out_group + k % shape.out_group;
    return (std::int64_t{o} * pixels + pixel) * shape.in_group;
  }
  __device__ float at(Line c, Depth first) const { return to_float(weight[first + c]); }
};

}  // namespace trireme::cuda

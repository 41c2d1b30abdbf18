// The tables of numerics.h for images: the ops between convolutions, and Winograd's transforms. Serial
// functions over raw pointers, as [Note: instruction sets] requires.
#pragma once

#include <cstdint>

namespace trireme::cpu {

/// Rows [rows, cols] of an image's pixels. Each column is a channel.
struct ChannelMoments {
  const float* x;
  std::int64_t rows, cols;
  float *mean, *m2;  // [cols]: mean of these rows, and their sum of squares about it
};

struct ChannelAffine {
  const float *x, *residual;   // residual or null
  const float *scale, *shift;  // [cols]
  float* y;                    // rectify(x * scale + shift + residual); may be x or residual
  std::int64_t rows, cols;
  bool rectify, stream;  // stream: y bypasses the caches, and is aligned to their lines
};

/// The elements whose gradient passes the ReLU.
enum class Passes : std::uint8_t {
  kAll,    // no ReLU
  kFromY,  // where y is not <= 0
  kFromX,  // where x * scale + shift is not <= 0
};

struct ChannelGradients {
  const float *dy, *x, *y;            // y for kFromY
  const float *scale, *shift, *mean;  // [cols]
  Passes passes;
  std::int64_t rows, cols;
  float *sum, *sum_x;  // [cols]: sums of g and of g (x - mean); overwritten
  float* gradient;     // receives g, or null; may be dy
};

struct ChannelBackward {
  ChannelGradients in;
  const float *of_g, *of_x, *constant;  // [cols]: dx = of_g g + of_x (x - mean) + constant
  float* dx;
  bool stream;  // as above, for dx
};

struct BatchNormNumerics {
  void (*moments)(const ChannelMoments& piece);
  void (*affine)(const ChannelAffine& piece);
  void (*sums)(const ChannelGradients& piece);
  void (*backward)(const ChannelBackward& piece);
  void (*relu)(const float* x, float* y, std::int64_t n);
  void (*relu_bwd)(const float* dy, const float* y, float* dx, std::int64_t n);
};

/// A window over one image [height, width, channels].
struct PoolImage {
  std::int64_t height, width, channels;
  std::int64_t out_height, out_width;
  std::int64_t window_height, window_width, stride, padding;
};

/// Serial functions over one image. The backward functions overwrite dx.
struct PoolNumerics {
  void (*max_fwd)(const PoolImage& image, const float* x, float* y, std::uint8_t* place);  // place or null
  void (*max_bwd)(const PoolImage& image, const float* dy, const std::uint8_t* place, float* dx);
  void (*avg_fwd)(const PoolImage& image, const float* x, float* y);
  void (*avg_bwd)(const PoolImage& image, const float* dy, float* dx);
};

/// A square of pixels that Winograd transforms. [i, j, channel] is at i * row_pitch + j * channels + channel.
/// `channels` is a multiple of 16.
struct WinogradPatch {
  std::int64_t channels, row_pitch;
  int first_row, end_row, first_col, end_col;  // the part of the square that is inside the image
};

/// The 36 points of a square. Channel c of point f is at f * point_pitch + c / kPanel * panel_pitch + c %
/// kPanel.
struct WinogradPoints {
  static constexpr std::int64_t kPanel = 32;
  float* data;
  std::int64_t point_pitch, panel_pitch;
};

/// c [rows, cols] = a b, or c += a b. rows is a multiple of 8, cols of 16.
struct WinogradProduct {
  const float* a;
  std::int64_t a_pitch;
  const float* b;
  std::int64_t b_pitch;
  float* c;
  std::int64_t c_pitch;
  std::int64_t rows, cols, depth;
  bool accumulate;
};

/// Serial parts of a convolution by Winograd's minimal filtering F(4 x 4, 3 x 3).
struct WinogradNumerics {
  static constexpr int kInput = 6, kOutput = 4, kPoints = kInput * kInput;
  static constexpr std::int64_t kWeightBlock = 16;
  void (*input_to_points)(const WinogradPatch& patch, const float* x, const WinogradPoints& to);
  void (*output_gradient_to_points)(const WinogradPatch& patch, const float* dy, const WinogradPoints& to);
  /// y = inverse transform of the points + bias + addend. `bias` and `addend` may be null. `addend` has the
  /// layout of y and may be y.
  void (*points_to_output)(const WinogradPatch& patch, const WinogradPoints& from, const float* bias,
                           const float* addend, float* y);
  /// Transforms taps [9, 16] to u, 16 values per point. `flip` rotates the kernel by 180 degrees.
  void (*weight_to_points)(const float* taps, bool flip, float* u, std::int64_t point_pitch);
  void (*points_to_weight)(const float* u, std::int64_t point_pitch, float* taps);
  void (*product)(const WinogradProduct& p);             // a [rows, depth], overwrites
  void (*product_of_columns)(const WinogradProduct& p);  // a [depth, rows]
};

}  // namespace trireme::cpu

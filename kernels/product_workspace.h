// The workspace of matrix products, convolutions and gradients of tables on cuda. It depends on the shapes.
// kernels/cuda allocates it, and the meta backend counts it when it predicts the memory of a CUDA job. The
// internal workspaces of cuBLASLt and of cuDNN's engines, at most 32 MiB and 1 GiB, depend on the library and
// are not counted.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/backend_chunk_ops.h"
#include "kernels/backend_image_ops.h"
#include "kernels/backend_ops.h"

namespace trireme {

/// Allocated bytes for a workspace of `bytes`, rounded as by the allocator.
inline std::int64_t charged_bytes(std::int64_t bytes) {
  return static_cast<std::int64_t>(Allocator::rounded(static_cast<std::size_t>(bytes)));
}

/// Backend::logits_alignment on cuda: 128 bytes in 16 bits.
inline constexpr std::int64_t kCudaLogitsAlignment = 64;

/// True where cuBLASLt can multiply these extents in fp8. Other extents run in bf16.
constexpr bool takes_fp8_extents(std::int64_t m, std::int64_t n, std::int64_t k) {
  return m % 16 == 0 && n % 16 == 0 && k % 16 == 0;
}

/// True where the activation may run inside the library's kernel. Not in fp32: the rounding of the library's
/// tanh is undocumented, and fp32 results must match to 1e-5.
inline bool library_may_activate(const MatmulArgs& args) {
  const bool is_exact = args.a.dtype == DType::kFloat32 && args.math == MathMode::kFp32;
  return !is_exact && !args.a_inverse_scale.defined() && args.activation == Activation::kGeluTanh &&
         !args.residual.defined() && args.d.shape[1] % 8 == 0;
}

/// Bytes that codes allocate beside their tensors: the result's own maximum.
inline std::int64_t codes_workspace(const CodesOutput& out) {
  return out.defined() ? charged_bytes(sizeof(float)) : 0;
}

/// Bytes that a product allocates beside its tensors, unless the library refuses it. They hold fp8 codes that
/// are decoded to bf16, and the product in fp32 where the library cannot apply the whole epilogue.
inline std::int64_t matmul_workspace(const MatmulArgs& args) {
  const std::int64_t m = args.d.shape[0], n = args.d.shape[1],
                     k = args.a.shape[args.transpose_a == Transpose::kYes ? 0 : 1];
  if (m == 0 || n == 0 || k == 0) return 0;
  bool is_one_call =
      (args.activation == Activation::kNone && !args.pre_activation.defined()) || library_may_activate(args);
  std::int64_t bytes = 0;
  if (args.a_inverse_scale.defined() && !takes_fp8_extents(m, n, k)) {
    bytes = charged_bytes(2 * m * k) + charged_bytes(2 * n * k);
    is_one_call = false;
  }
  if (is_one_call) return bytes;
  const bool in_place = args.mode == GradientMode::kAccumulate ||
                        (args.residual.defined() && args.residual.data == args.d.data);
  const bool is_fp32 = args.d.dtype == DType::kFloat32;
  if (is_fp32 && (args.pre_activation.defined() || !in_place)) return bytes;
  return bytes + charged_bytes(m * n * std::int64_t{sizeof(float)});
}

/// Partial sums of the tree that are alive, besides the result, during a sum of products.
inline int product_sum_waiting(const ProductSumArgs& args) {
  return std::bit_width(args.products.size() * static_cast<std::size_t>(args.groups)) - 1;
}
inline std::int64_t product_sum_workspace(const ProductSumArgs& args) {
  return product_sum_waiting(args) * charged_bytes(args.d.num_elems() * std::int64_t{sizeof(float)});
}

/// Positions of a token id that one block of embedding_bwd adds: [Note: ordered buckets] in
/// kernels/cuda/embedding.cu.
inline constexpr int kEmbeddingSegment = 128;
/// The two allocations of embedding_bwd for a table, in bytes.
struct EmbeddingWorkspace {
  std::int64_t buckets = 0, partials = 0;

  explicit EmbeddingWorkspace(const EmbeddingBwdArgs& args) {
    const std::int64_t places = args.tokens.num_elems(), cols = args.dx.shape.dim(-1);
    if (args.dtable_mode == GradientMode::kIgnore || places == 0 || cols == 0) return;
    constexpr std::int64_t kInt = sizeof(std::int32_t), kFloat = sizeof(float);
    buckets = (3 * args.dtable.shape[0] + 1 + 2 * places) * kInt;
    partials = (2 * places / kEmbeddingSegment + 1) * cols * kFloat;
  }
};
inline std::int64_t embedding_bwd_workspace(const EmbeddingBwdArgs& args) {
  const EmbeddingWorkspace bytes(args);
  return charged_bytes(bytes.buckets) + charged_bytes(bytes.partials);
}

/// True for a 1 x 1 convolution with stride 1, without padding and groups: a matrix product.
inline bool is_product(const Shape& weight, const ConvGeometry& geometry) {
  return weight[2] == 1 && weight[3] == 1 && geometry.stride == 1 && !geometry.has_padding() &&
         geometry.groups == 1;
}

/// True for a 1 x 1 convolution with a larger stride, without padding and groups. It skips pixels of x: see
/// [Note: strided pixels] in kernels/cuda/conv/strided_pixel_conv.h.
inline bool is_strided_product(const Shape& weight, const ConvGeometry& geometry) {
  return weight[2] == 1 && weight[3] == 1 && geometry.stride > 1 && !geometry.has_padding() &&
         geometry.groups == 1;
}

/// True where a convolution can run as a product of gathered windows: see [Note: gathered windows] in
/// kernels/cuda/conv/gathered_conv.h. In fp32, the native kernels are as fast.
inline bool may_gather(const ConvGeometry& geometry, DType dtype) {
  return size_bytes(dtype) == 2 && geometry.groups == 1;
}
/// True where forward and weight gradient gather windows: images with few channels.
inline bool gathers_windows(const Shape& weight, const ConvGeometry& geometry, DType dtype) {
  return may_gather(geometry, dtype) && weight[1] < 8 && weight.num_elems() > 0;
}
/// The tiles of [Note: windows on tensor cores] in kernels/cuda/conv/window_conv.h.
struct WindowTiles {
  static constexpr std::int64_t kRows = 8, kCols = 16, kOutputs = 64;      // of a block
  static constexpr std::int64_t kMostFactors = 224, kMostPatch = 1 << 14;  // elements
  static constexpr std::int64_t kGradientBlocks = 3 * 132;

  std::int64_t row_factors;        // S C, made even
  std::int64_t factors;            // of a window: row_factors a row, made a multiple of 16
  std::int64_t patch_rows, pitch;  // of the pixels that a tile reads; elements of a row, even
  std::int64_t tiles_high, tiles_wide;

  WindowTiles(const Shape& weight, const ConvGeometry& geometry, const Shape& y)
      : row_factors((weight[1] * weight[3] + 1) / 2 * 2),
        factors((weight[2] * row_factors + 15) / 16 * 16),
        patch_rows((kRows - 1) * geometry.stride + weight[2]),
        pitch((((kCols - 1) * geometry.stride + weight[3]) * weight[1] + 2) / 2 * 2),
        tiles_high((y[1] + kRows - 1) / kRows),
        tiles_wide((y[2] + kCols - 1) / kCols) {}
  bool fit() const { return factors <= kMostFactors && patch_rows * pitch <= kMostPatch; }

  std::int64_t output_tiles(std::int64_t outputs) const { return (outputs + kOutputs - 1) / kOutputs; }
  std::int64_t weight_bytes(std::int64_t outputs) const {
    return output_tiles(outputs) * kOutputs * factors * 2;
  }
  /// Blocks for one tile of outputs. At most kGradientBlocks in total, but at least one per tile.
  std::int64_t gradient_blocks(std::int64_t images, std::int64_t outputs) const {
    const std::int64_t most = std::max(std::int64_t{1}, kGradientBlocks / output_tiles(outputs));
    return std::min(images * tiles_high * tiles_wide, most);
  }
  std::int64_t gradient_bytes(std::int64_t images, std::int64_t outputs) const {
    return gradient_blocks(images, outputs) * output_tiles(outputs) * kOutputs * factors *
           std::int64_t{sizeof(float)};
  }
};
/// Cases of gathers_windows() that can use tiles instead, on cards from sm_80 on.
inline bool takes_window_tiles(const Shape& weight, const ConvGeometry& geometry, DType dtype) {
  constexpr std::int64_t kMostOutputTiles = 65535;  // blocks in the y direction
  const WindowTiles tiles(weight, geometry, Shape{1, 1, 1, 1});
  return gathers_windows(weight, geometry, dtype) && tiles.fit() &&
         tiles.output_tiles(weight[0]) <= kMostOutputTiles;
}
/// Weight gradients that gather windows, including cases not given to cuDNN: see
/// [Note: defects of cuDNN's convolutions].
inline bool gathers_gradient(const Shape& weight, const ConvGeometry& geometry, DType dtype) {
  const bool is_padded_pixel = weight[2] == 1 && weight[3] == 1 && geometry.has_padding();
  return gathers_windows(weight, geometry, dtype) || (may_gather(geometry, dtype) && is_padded_pixel);
}
/// Elements of a gathered window: R S C, padded with zeros so that tensor cores can read 16 bytes at a time.
inline std::int64_t window_pitch(const Shape& weight) {
  return (weight[1] * weight[2] * weight[3] + 7) / 8 * 8;
}
/// The number of windows, out of `pixels`, gathered at a time: 32 MiB.
inline std::int64_t window_chunk(std::int64_t pixels, std::int64_t pitch, DType dtype) {
  constexpr std::int64_t kBytes = std::int64_t{32} << 20, kStep = 64;
  return std::min(pixels, std::max(kStep, kBytes / (pitch * size_bytes(dtype)) / kStep * kStep));
}
inline std::int64_t windows_bytes(const Shape& weight, const Shape& y, DType dtype) {
  const std::int64_t pitch = window_pitch(weight);
  return charged_bytes(window_chunk(y[0] * y[1] * y[2], pitch, dtype) * pitch * size_bytes(dtype));
}

/// The number of image channels passed to cuDNN for images of `dtype`: see [Note: padded channels] in
/// kernels/cuda/conv/channel_padding.h.
inline std::int64_t library_channels(const Shape& weight, const ConvGeometry& geometry, DType dtype) {
  const bool may_pad = size_bytes(dtype) == 2 && geometry.groups == 1 && weight[0] % 8 == 0;
  return may_pad ? (weight[1] + 7) / 8 * 8 : weight[1] * geometry.groups;
}

/// Bytes of a weight or its gradient with `in_group` channels per group, and of images with `channels`
/// channels.
inline std::int64_t packed_weight_bytes(const Shape& weight, std::int64_t in_group, DType dtype) {
  return charged_bytes(weight[0] * in_group * weight[2] * weight[3] * size_bytes(dtype));
}
inline std::int64_t image_bytes(const Shape& images, std::int64_t channels, DType dtype) {
  return charged_bytes(images[0] * images[1] * images[2] * channels * size_bytes(dtype));
}

/// Workspace bytes of a convolution. It holds:
///  * the packed weight or its gradient, and images with padded channels;
///  * the fp32 sum, where the result cannot hold a value that is added to;
///  * for strided pixels, their product;
///  * for windows on tensor cores, the weight or the parts of its gradient;
///  * for gathered windows, one chunk of windows and the weight.
/// 0 for a 1 x 1 convolution that is a product.
inline std::int64_t conv_workspace(const Conv2dFwdArgs& args) {
  if (args.y.num_elems() == 0 || is_product(args.weight.shape, args.geometry)) return 0;
  if (takes_window_tiles(args.weight.shape, args.geometry, args.x.dtype)) {
    return charged_bytes(
        WindowTiles(args.weight.shape, args.geometry, args.y.shape).weight_bytes(args.y.shape[3]));
  }
  if (gathers_windows(args.weight.shape, args.geometry, args.x.dtype)) {
    return windows_bytes(args.weight.shape, args.y.shape, args.x.dtype) +
           charged_bytes(args.weight.shape[0] * window_pitch(args.weight.shape) * size_bytes(args.x.dtype));
  }
  const std::int64_t channels = library_channels(args.weight.shape, args.geometry, args.x.dtype);
  std::int64_t bytes =
      packed_weight_bytes(args.weight.shape, channels / args.geometry.groups, args.weight.dtype);
  if (channels != args.x.shape[3]) bytes += image_bytes(args.x.shape, channels, args.x.dtype);
  const bool has_sum = args.bias.defined() && args.y.dtype != DType::kFloat32;
  return bytes + (has_sum ? image_bytes(args.y.shape, args.y.shape[3], DType::kFloat32) : 0);
}
inline std::int64_t conv_workspace(const Conv2dBwdDataArgs& args) {
  if (args.dx.num_elems() == 0 || is_product(args.weight.shape, args.geometry)) return 0;
  const bool adds = args.dx_add.defined();
  const DType sum = adds ? DType::kFloat32 : args.dx.dtype;
  if (is_strided_product(args.weight.shape, args.geometry)) {
    return image_bytes(args.dy.shape, args.dx.shape[3], sum);
  }
  const std::int64_t channels = library_channels(args.weight.shape, args.geometry, args.dx.dtype);
  const bool has_sum =
      channels != args.dx.shape[3] || sum != args.dx.dtype || (adds && args.dx_add.data == args.dx.data);
  return packed_weight_bytes(args.weight.shape, channels / args.geometry.groups, args.weight.dtype) +
         (has_sum ? image_bytes(args.dx.shape, channels, sum) : 0);
}
inline std::int64_t conv_workspace(const Conv2dBwdWeightArgs& args) {
  const Shape& weight = args.dweight.shape;
  if (args.mode == GradientMode::kIgnore || weight.num_elems() == 0 || is_product(weight, args.geometry) ||
      args.dy.num_elems() == 0) {
    return 0;
  }
  if (takes_window_tiles(weight, args.geometry, args.x.dtype)) {
    return charged_bytes(
        WindowTiles(weight, args.geometry, args.dy.shape).gradient_bytes(args.dy.shape[0], args.dy.shape[3]));
  }
  if (gathers_gradient(weight, args.geometry, args.x.dtype)) {
    return windows_bytes(weight, args.dy.shape, args.x.dtype) +
           charged_bytes(weight[0] * window_pitch(weight) * std::int64_t{sizeof(float)});
  }
  const std::int64_t channels = library_channels(weight, args.geometry, args.x.dtype);
  return packed_weight_bytes(weight, channels / args.geometry.groups, DType::kFloat32) +
         (channels != args.x.shape[3] ? image_bytes(args.x.shape, channels, args.x.dtype) : 0);
}

}  // namespace trireme

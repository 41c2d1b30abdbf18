// The workspace of matrix products and convolutions on cuda that the shapes decide: kernels/cuda takes it,
// and the meta backend counts it for jobs that will run there. What cuBLASLt and cuDNN's engines take for
// themselves is not known before they are asked, and not counted: at most 32 MiB and 1 GiB.
#pragma once

#include <bit>

#include "kernels/backend_chunk_ops.h"
#include "kernels/backend_image_ops.h"
#include "kernels/backend_ops.h"

namespace trireme {

/// What the allocator charges for a workspace.
inline std::int64_t charged_bytes(std::int64_t bytes) {
  return static_cast<std::int64_t>(Allocator::rounded(static_cast<std::size_t>(bytes)));
}

/// Extents that cuBLASLt multiplies in fp8; others run in bf16.
constexpr bool takes_fp8_extents(std::int64_t m, std::int64_t n, std::int64_t k) {
  return m % 16 == 0 && n % 16 == 0 && k % 16 == 0;
}

/// True where the activation may run inside of the library's kernel. Not in fp32: how the library rounds its
/// tanh is not documented, and fp32 results are held to 1e-5.
inline bool library_may_activate(const MatmulArgs& args) {
  const bool is_exact = args.a.dtype == DType::kFloat32 && args.math == MathMode::kFp32;
  return !is_exact && !args.a_inverse_scale.defined() && args.activation == Activation::kGeluTanh &&
         !args.residual.defined() && args.d.shape[1] % 8 == 0;
}

/// The bytes that a product holds beside its tensors while it runs, where the library does not refuse it:
/// fp8 codes that are transposed, or decoded to bf16; and the product in fp32 where the library does not do
/// all that follows it.
inline std::int64_t matmul_workspace(const MatmulArgs& args) {
  const bool has_a_down = args.transpose_a == Transpose::kYes,
             has_b_down = args.transpose_b == Transpose::kNo;
  const std::int64_t m = args.d.shape[0], n = args.d.shape[1], k = args.a.shape[has_a_down ? 0 : 1];
  if (m == 0 || n == 0 || k == 0) return 0;
  bool is_one_call =
      (args.activation == Activation::kNone && !args.pre_activation.defined()) || library_may_activate(args);
  std::int64_t bytes = 0;
  if (args.a_inverse_scale.defined()) {
    if (has_a_down) bytes += charged_bytes(m * k);
    if (has_b_down) bytes += charged_bytes(n * k);
    if (!takes_fp8_extents(m, n, k)) {
      bytes += charged_bytes(2 * m * k) + charged_bytes(2 * n * k);
      is_one_call = false;
    }
  }
  if (is_one_call) return bytes;
  const bool in_place = args.mode == GradientMode::kAccumulate ||
                        (args.residual.defined() && args.residual.data == args.d.data);
  const bool is_fp32 = args.d.dtype == DType::kFloat32;
  if (is_fp32 && (args.pre_activation.defined() || !in_place)) return bytes;
  return bytes + charged_bytes(m * n * std::int64_t{sizeof(float)});
}

/// Nodes of the tree that wait beside the result while a sum of products is made.
inline int product_sum_waiting(const ProductSumArgs& args) {
  return std::bit_width(args.products.size() * static_cast<std::size_t>(args.groups)) - 1;
}
inline std::int64_t product_sum_workspace(const ProductSumArgs& args) {
  return product_sum_waiting(args) * charged_bytes(args.d.num_elems() * std::int64_t{sizeof(float)});
}

/// A pixel of y is a pixel of x times the weight.
inline bool is_product(const Shape& weight, const ConvGeometry& geometry) {
  return weight[2] == 1 && weight[3] == 1 && geometry.stride == 1 && geometry.padding == 0 &&
         geometry.groups == 1;
}

/// A pixel of y is a pixel of x times the weight, and others of x are left out: see [Note: strided pixels] in
/// kernels/cuda/conv/strided_pixel_conv.h.
inline bool is_strided_product(const Shape& weight, const ConvGeometry& geometry) {
  return weight[2] == 1 && weight[3] == 1 && geometry.stride > 1 && geometry.padding == 0 &&
         geometry.groups == 1;
}

/// The channels of the images that cuDNN is asked about for images of `dtype`: see [Note: padded channels] in
/// kernels/cuda/conv/channel_padding.h.
inline std::int64_t library_channels(const Shape& weight, const ConvGeometry& geometry, DType dtype) {
  const bool may_pad = size_bytes(dtype) == 2 && geometry.groups == 1 && weight[0] % 8 == 0;
  return may_pad ? (weight[1] + 7) / 8 * 8 : weight[1] * geometry.groups;
}

/// The bytes of the packed weight or its gradient, of images whose channels are padded, and of the fp32 sum
/// that something is added to where the result cannot hold it; of strided pixels those of their product. 0
/// for products.
inline std::int64_t conv_workspace(const Conv2dFwdArgs& args) {
  if (args.y.num_elems() == 0 || is_product(args.weight.shape, args.geometry)) return 0;
  const Shape &x = args.x.shape, &weight = args.weight.shape;
  const std::int64_t channels = library_channels(weight, args.geometry, args.x.dtype);
  const bool is_padded = channels != x[3], has_sum = args.bias.defined() && args.y.dtype != DType::kFloat32;
  return charged_bytes(Shape{weight[0], channels / args.geometry.groups, weight[2], weight[3]}.num_elems() *
                       size_bytes(args.weight.dtype)) +
         (is_padded ? charged_bytes(Shape{x[0], x[1], x[2], channels}.num_elems() * size_bytes(args.x.dtype))
                    : 0) +
         (has_sum ? charged_bytes(args.y.num_elems() * std::int64_t{sizeof(float)}) : 0);
}
inline std::int64_t conv_workspace(const Conv2dBwdDataArgs& args) {
  if (args.dx.num_elems() == 0 || is_product(args.weight.shape, args.geometry)) return 0;
  const Shape &dx = args.dx.shape, &dy = args.dy.shape, &weight = args.weight.shape;
  const std::int64_t sum_elem = args.dx_add.defined() ? sizeof(float) : size_bytes(args.dx.dtype);
  if (is_strided_product(weight, args.geometry)) {
    return charged_bytes(Shape{dy[0], dy[1], dy[2], dx[3]}.num_elems() * sum_elem);
  }
  const std::int64_t channels = library_channels(weight, args.geometry, args.dx.dtype);
  const bool has_sum = channels != dx[3] || sum_elem != size_bytes(args.dx.dtype) ||
                       (args.dx_add.defined() && args.dx_add.data == args.dx.data);
  return charged_bytes(Shape{weight[0], channels / args.geometry.groups, weight[2], weight[3]}.num_elems() *
                       size_bytes(args.weight.dtype)) +
         (has_sum ? charged_bytes(Shape{dx[0], dx[1], dx[2], channels}.num_elems() * sum_elem) : 0);
}
inline std::int64_t conv_workspace(const Conv2dBwdWeightArgs& args) {
  const Shape &x = args.x.shape, &weight = args.dweight.shape;
  if (args.mode == GradientMode::kIgnore || weight.num_elems() == 0 || is_product(weight, args.geometry)) {
    return 0;
  }
  const std::int64_t channels = library_channels(weight, args.geometry, args.x.dtype);
  return charged_bytes(Shape{weight[0], channels / args.geometry.groups, weight[2], weight[3]}.num_elems() *
                       std::int64_t{sizeof(float)}) +
         (channels != x[3]
              ? charged_bytes(Shape{x[0], x[1], x[2], channels}.num_elems() * size_bytes(args.x.dtype))
              : 0);
}

}  // namespace trireme

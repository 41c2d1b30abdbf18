// oneDNN's convolutions of one rank, made once a shape.
//
// [Note: convolution pieces] A convolution is cut into pieces of a few images by its shape alone, and a
// primitive computes one piece on one thread: it is made and run where oneDNN believes that there is one. So
// neither the number of threads nor who computes a piece can change a bit. A weight gradient is summed over
// the pieces in their order. (oneDNN's own parallel weight gradient sums over as many parts as there are
// threads.)
//
// Primitives choose how weights lie; they are copied from and to PyTorch's order in every call. Estimated,
// not measured: the 11 M weights of ResNet-50 that this concerns are 90 MB to read and write, below 1 % of a
// step of 16 images. So the copies are not kept: nobody tells a kernel when weights change. For the same
// reason minimal filtering transforms the weights that it takes in every call, forward and backward to the
// input: 9 numbers become 36, which large images win back (takes_winograd() in winograd_conv.cc says when).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "kernels/backend.h"
#include "kernels/conv_shape.h"

namespace trireme::cpu {

using ConvShape = ConvExtents<std::int64_t>;

enum class ConvKind : std::uint8_t { kFwd, kBwdData, kBwdWeight };

struct ConvPrimitive {
  dnnl::primitive primitive;
  dnnl::memory::desc x, weight, y, bias;  // of the piece; gradients lie like their tensors
  std::int64_t scratchpad_bytes = 0;

  std::int64_t weight_floats() const;  // as the primitive wants them
};

/// The primitives that a rank has used. Used from its thread alone; the primitives from all of its threads.
class ConvPrimitives {
 public:
  ConvPrimitives();
  /// Throws Error(kUnsupported) naming the shape where oneDNN has none.
  const ConvPrimitive& get(ConvKind kind, const ConvShape& piece);
  /// Copies weights between PyTorch's order, `plain`, and a primitive's.
  void pack_weight(const ConvShape& shape, const ConvPrimitive& to, const float* plain, float* packed);
  void unpack_weight(const ConvShape& shape, const ConvPrimitive& from, const float* packed, float* plain);

  const dnnl::engine& engine() const { return engine_; }

 private:
  void copy(const ConvShape& shape, dnnl::memory& from, dnnl::memory& into);

  dnnl::engine engine_;
  std::map<std::pair<ConvKind, ConvShape>, ConvPrimitive> primitives_;
};

/// Those of a rank, or fresh ones where its context has none.
std::shared_ptr<ConvPrimitives> conv_primitives_of(const KernelContext& exec);

// A kernel of one pixel without padding and groups is a product of matrices: see pointwise_conv.cc.
bool is_pointwise(const Shape& weight, const ConvGeometry& geometry);
void pointwise_conv_fwd(const KernelContext& exec, const Conv2dFwdArgs& args);
void pointwise_conv_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args);
void pointwise_conv_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args);

// Those that minimal filtering does not take either (winograd_conv.h), piece by piece. `shape` is that of the
// call.
void conv_fwd_by_pieces(const KernelContext& exec, const ConvShape& shape, const Conv2dFwdArgs& args);
void conv_bwd_data_by_pieces(const KernelContext& exec, const ConvShape& shape,
                             const Conv2dBwdDataArgs& args);
void conv_bwd_weight_by_pieces(const KernelContext& exec, const ConvShape& shape,
                               const Conv2dBwdWeightArgs& args);

}  // namespace trireme::cpu

// The oneDNN convolutions of one rank, created once per shape.
//
// [Note: convolution pieces] A convolution is split, by its shape alone, into pieces of a few images. One
// primitive computes one piece on one thread: oneDNN is set to one thread when the primitive is created and
// when it runs. So neither the number of threads nor their assignment to pieces changes a bit. A weight
// gradient is summed over the pieces in order. (oneDNN's own parallel weight gradient sums over one part per
// thread.)
//
// Primitives choose the layout of the weights. Every call copies weights from and to PyTorch's order. The
// estimated cost (not measured): the 11 M affected weights of ResNet-50 are 90 MB to read and write, below 1
// % of a step of 16 images. Copies are not cached, because a kernel cannot detect that weights changed. For
// the same reason, minimal filtering transforms its weights in every call, in forward and in backward to the
// input. That turns 9 numbers into 36, which pays off for large images (see takes_winograd() in
// winograd_conv.cc).
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
  dnnl::memory::desc x, weight, y, bias;  // of the piece; gradients have the layout of their tensors
  std::int64_t scratchpad_bytes = 0;

  std::int64_t weight_floats() const;  // in the primitive's layout
};

/// The primitives that a rank has used. get() and packing are called from the rank's thread only; all of its
/// threads may run the primitives.
class ConvPrimitives {
 public:
  ConvPrimitives();
  /// Throws Error(kUnsupported) naming the shape if oneDNN has no primitive for it.
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

/// The primitives of the rank, or a new object if its context has none.
std::shared_ptr<ConvPrimitives> conv_primitives_of(const KernelContext& exec);

// A 1 x 1 kernel without padding and groups is a matrix product: see pointwise_conv.cc.
bool is_pointwise(const Shape& weight, const ConvGeometry& geometry);
void pointwise_conv_fwd(const KernelContext& exec, const Conv2dFwdArgs& args);
void pointwise_conv_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args);
void pointwise_conv_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args);

// All other convolutions, unless minimal filtering computes them (winograd_conv.h). `shape` is the shape of
// the call.
void conv_fwd_by_pieces(const KernelContext& exec, const ConvShape& shape, const Conv2dFwdArgs& args);
void conv_bwd_data_by_pieces(const KernelContext& exec, const ConvShape& shape,
                             const Conv2dBwdDataArgs& args);
void conv_bwd_weight_by_pieces(const KernelContext& exec, const ConvShape& shape,
                               const Conv2dBwdWeightArgs& args);

}  // namespace trireme::cpu

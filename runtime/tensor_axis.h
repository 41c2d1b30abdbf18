// The ranks that share the chunks of a model, as an op sees them.
#pragma once

#include "runtime/tensor.h"

namespace trireme {

struct Context;

/// Chunks [first, first + count) of those that a block is cut into.
struct ChunkRange {
  int first = 0, count = 1;
};

/// See [Note: tensor chunks].
class TensorAxis {
 public:
  virtual ~TensorAxis() = default;
  /// Those that this rank computes: a complete subtree of the tree over `chunks`.
  virtual ChunkRange own_chunks(int chunks) const = 0;
  /// `partial`, fp32, is the sum over this rank's chunks: replaces it by the sum over all ranks', which is
  /// the rest of the tree. Collective over the axis.
  virtual void sum_partials(Context& ctx, const Tensor& partial) = 0;
  /// `own`, fp32, of every rank: [ranks * elements], in the order of their chunks. In a plan it is a sum like
  /// sum_partials(). Collective over the axis.
  virtual Tensor gather_partials(Context& ctx, const Tensor& own) = 0;
};

}  // namespace trireme

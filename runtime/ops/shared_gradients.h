// Gradients of parameters that every tensor chunk of a block reads, such as the gains that heads share: see
// [Note: tensor chunks] in runtime/parameter_slice.h.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "runtime/context.h"

namespace trireme::ops {

/// A sum over the chunks of this rank, a power of two, in a binary tree. fp32.
class ChunkSum {
 public:
  /// Call in the order of the chunks, or from the last to the first: the bits are the same. Writes to
  /// `partial`, or to earlier ones, if nothing else holds them.
  void add(const Context& ctx, Tensor partial);
  /// Throws if the number of partial sums is no power of two.
  Tensor take();

 private:
  std::vector<std::pair<int, Tensor>> stack_;  // levels descend
};

/// The gradients of such parameters in the backward of one sum_over_chunks(). Ops in a chunk get it as
/// Context::shared_gradients, and add the gradient of their chunk. The backward of the input that the chunks
/// read completes it.
class SharedGradients {
 public:
  /// `partial`: fp32, one chunk's gradient. Call from the last chunk of this rank to the first.
  void add(const Context& ctx, ParamRef parameter, Tensor partial) {
    sums_[parameter.index].add(ctx, std::move(partial));
  }
  /// Completes the sums over the tensor ranks, and adds them to the gradients of the parameters. Does nothing
  /// without sums. Collective over the tensor axis: one sum.
  void finish(Context& ctx);

 private:
  std::map<int, ChunkSum> sums_;  // by ParamRef::index
};

}  // namespace trireme::ops

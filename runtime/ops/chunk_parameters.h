// Parameters that every tensor chunk of a block reads, such as the gains that heads share: see [Note: tensor
// chunks] in runtime/parameter_slice.h.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "runtime/context.h"

namespace trireme::ops {

/// The gradient of such parameters in one backward: the chunks of this rank are added in a binary tree.
class ChunkGradient {
 public:
  /// `partial`: fp32, one chunk's gradient. Call from the last chunk of this rank to the first.
  void add(const Context& ctx, Tensor partial);
  /// The sum over this rank's chunks, a power of two.
  Tensor take();

 private:
  std::vector<std::pair<int, Tensor>> stack_;  // levels descend
};

/// x under a new tape value, for chunks that read it and `parameters`. After their backward, the sum in
/// `gradient` is completed over the tensor ranks, and its parts are added to the gradients of `parameters`,
/// in order. Nothing is copied or saved. Backward is collective over the tensor axis: one sum.
Tensor read_with_parameters(Context& ctx, const Tensor& x, std::vector<ParamRef> parameters,
                            std::shared_ptr<ChunkGradient> gradient);

}  // namespace trireme::ops

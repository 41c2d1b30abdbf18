// Cross-entropy over logits whose vocabulary is sharded over the tensor ranks.
#pragma once

#include <vector>

#include "runtime/context.h"

namespace trireme::ops {

/// softmax_cross_entropy() over logits in `chunks` pieces of equal width, one per tensor chunk. A rank has
/// its own pieces, [..., V / chunks] each: see [Note: tensor chunks] in runtime/parameter_slice.h. targets
/// int32, one per row (negative: ignored). Ranks never exchange logits. Per row they exchange the maximum,
/// the sum of exponentials and the logit of the target. Takes the logits, whose memory becomes their
/// gradients. Collective over the tensor axis.
Tensor piece_cross_entropy(Context& ctx, std::vector<Tensor> logits, int chunks, const Tensor& targets,
                           float inv_num_targets);

}  // namespace trireme::ops

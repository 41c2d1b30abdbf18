// Cross-entropy over logits that tensor ranks hold in pieces.
#pragma once

#include <vector>

#include "runtime/context.h"

namespace trireme::ops {

/// softmax_cross_entropy() over logits in `chunks` pieces of equal width, one a tensor chunk, of which a rank
/// has its own, [..., V / chunks] each: see [Note: tensor chunks] in runtime/parameter_slice.h. targets
/// int32, one a row (negative: ignored). No rank sees the logits of others: of a row they learn its maximum,
/// its sum of exponentials and the logit of its target. Takes the logits, whose memory becomes their
/// gradients. Collective over the tensor axis.
Tensor piece_cross_entropy(Context& ctx, std::vector<Tensor> logits, int chunks, const Tensor& targets,
                           float inv_num_targets);

}  // namespace trireme::ops

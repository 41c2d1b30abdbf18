// y = s (x A^T) B^T: what an adapter adds to a linear layer. See [Note: adapters] in runtime/adapter.h.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// Input [..., K], A [rank, K], B [N, rank], and a residual like the result, or undefined, which is added ->
/// [..., N], in the dtype of linear layers. s is the adapter's scale. Backward saves the input and s x A^T
/// [..., rank]. Throws for shapes that do not fit. (Hu et al. 2021, equation 3.)
Tensor low_rank(Context& ctx, const Tensor& input, const Adapter& adapter, const Tensor& residual = {});

}  // namespace trireme::ops

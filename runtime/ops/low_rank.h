// y = s (x A^T) B^T: the term that an adapter adds to a linear layer. See [Note: adapters] in
// runtime/adapter.h.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// Input [..., K], A [rank, K], B [N, rank] -> [..., N], in the dtype of linear layers. `residual`, shaped
/// like the result, is added if defined. s is the adapter's scale. Backward saves the input and s x A^T [...,
/// rank]. Throws for shapes that do not fit. (Hu et al. 2021, equation 3.)
Tensor low_rank(Context& ctx, const Tensor& input, const Adapter& adapter, const Tensor& residual = {});

}  // namespace trireme::ops

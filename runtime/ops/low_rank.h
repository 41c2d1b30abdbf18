// y = s (x A^T) B^T: the term that an adapter adds to a linear layer. See [Note: adapters] in
// runtime/adapter.h.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// The part of a linear layer that one chunk computes: see [Note: tensor chunks].
enum class LinearCut : std::uint8_t {
  kNone,
  kColumns,  // some of the outputs; the gradient of the input is then a partial sum, in fp32
};

/// Input [..., K], A [rank, K], B [N, rank] -> [..., N], in the dtype of linear layers. `residual`, shaped
/// like the result, is added if defined. s is the adapter's scale. With kColumns, all chunks read A, and its
/// gradient goes to ctx.shared_gradients. Backward saves the input and s x A^T [..., rank]. Throws for shapes
/// that do not fit. (Hu et al. 2021, equation 3.)
Tensor low_rank(Context& ctx, const Tensor& input, const Adapter& adapter, const Tensor& residual = {},
                LinearCut cut = LinearCut::kNone);

/// The adapter of a linear layer over some of the inputs: a partial sum, computed by the caller.
struct RowsLowRank {
  Tensor inner;                // s x A^T, [..., rank]
  Tensor b;                    // [N, rank], in the dtype of `inner`
  ValueId partial = kNoValue;  // the value of the partial sum inner B^T
};
/// Input [..., K], in the dtype of linear layers. All chunks read B, and its gradient goes to
/// ctx.shared_gradients. Records the backward of the partial sum.
RowsLowRank rows_low_rank(Context& ctx, const Tensor& x, const Adapter& adapter);

}  // namespace trireme::ops

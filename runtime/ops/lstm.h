// One layer of a long short-term memory network (Hochreiter & Schmidhuber 1997).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// The parameters of a layer with I inputs and H units, as in torch.nn.LSTM: the rows of the weights, and the
/// biases, are [i | f | g | o].
struct LstmParameters {
  ParamRef w_ih;  // [4H, I]
  ParamRef w_hh;  // [4H, H]
  ParamRef b_ih;  // [4H]
  ParamRef b_hh;  // [4H]
};

/// The state of a layer between two steps. Undefined tensors are zeros.
struct LstmState {
  Tensor h;  // [B, H], in the dtype of the output
  Tensor c;  // [B, H] fp32
};

struct LstmResult {
  Tensor output;   // [B, T, H]: h of every step
  LstmState last;  // after step T; without gradients
};

/// Runs x [B, T, I] through one layer in one direction, from the state `initial` on: see [Note: LSTM] in
/// kernels/backend_recurrent_ops.h. The output has the compute dtype (see precision.h); cells are fp32. The
/// input product is a linear layer, with its adapters and its fp8 products. Gradients reach x, the parameters
/// and `initial`. `last` has no gradient, so a caller that passes it on truncates backpropagation there.
/// Backward saves x, the output, 4H gates and H fp32 cells a step. Throws Error(kInvalidInput) for shapes
/// that do not fit, and for an adapter of w_hh.
LstmResult lstm(Context& ctx, const Tensor& x, const LstmParameters& parameters,
                const LstmState& initial = {});

}  // namespace trireme::ops

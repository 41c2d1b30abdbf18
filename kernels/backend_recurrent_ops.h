// Arguments of the recurrent ops. Contracts: see [Note: kernel contracts] in backend.h.
//
// [Note: LSTM] One layer in one direction (Hochreiter & Schmidhuber 1997), as torch.nn.LSTM computes it. A
// row of gates is [i | f | g | o], with H elements each. For each step t, with x the product of the layer's
// inputs and h[-1], c[-1] the initial state:
//   a = x[t] + h[t - 1] w_hh^T + bias
//   i, f, o = sigmoid(a_i, a_f, a_o), g = tanh(a_g)
//   c[t] = f c[t - 1] + i g
//   h[t] = o tanh(c[t])
// The cell state is fp32 for every dtype. The native kernels split each sum over H, or over 4 H in the
// backward, by its length alone. So the bits of a sample do not depend on the batch size or on later steps.
// On cuda, the products are the library's, which may choose another algorithm for another batch size.
#pragma once

#include <cstdint>

#include "kernels/op_table.h"

namespace trireme {

/// The recurrence of an LSTM layer over T steps: see [Note: LSTM]. Adds the recurrent product to the input
/// gates and applies the activations.
struct LstmFwdArgs {
  static constexpr const char* kName = "lstm_fwd";
  ConstTensorView x;     // [B, T, 4H]: the input product with its bias
  ConstTensorView w_hh;  // [4H, H]
  ConstTensorView bias;  // [4H]: the recurrent bias
  ConstTensorView h0;    // [B, H], or undefined: 0
  ConstTensorView c0;    // [B, H] fp32, or undefined: 0
  TensorView h;          // [B, T, H]
  TensorView c;          // [B, T, H] fp32
  TensorView gates;      // [B, T, 4H]: i, f, g and o after their activations; may be x
  TensorView h_n;        // [B, H]: h of the last step
  TensorView c_n;        // [B, H] fp32: c of the last step
  MathMode math = MathMode::kFp32;
};
template <class Visit>
void visit_views(LstmFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x, args.w_hh, args.bias, args.h0, args.c0);
  visit_each<ViewUse::kWrite>(visit, args.h, args.c, args.gates, args.h_n, args.c_n);
}

/// The gradients of the gates before their activations, from the last step to the first. The gradients of the
/// parameters and of the inputs are products of dgates.
struct LstmBwdArgs {
  static constexpr const char* kName = "lstm_bwd";
  ConstTensorView gates;  // [B, T, 4H], as forward wrote it
  ConstTensorView c;      // [B, T, H] fp32, as forward wrote it
  ConstTensorView dh;     // [B, T, H]
  ConstTensorView w_hh;   // [4H, H]
  ConstTensorView c0;     // [B, H] fp32, or undefined: as in forward
  TensorView dgates;      // [B, T, 4H]; may be gates
  TensorView dh0;         // [B, H], or undefined
  TensorView dc0;         // [B, H] fp32, or undefined
  MathMode math = MathMode::kFp32;
};
template <class Visit>
void visit_views(LstmBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.gates, args.c, args.dh, args.w_hh, args.c0);
  visit_each<ViewUse::kWrite>(visit, args.dgates, args.dh0, args.dc0);
}

/// y[b, t] = x[b, t - 1], and y[b, 0] = first[b]: the state before each step, for the gradient of w_hh.
struct ShiftStepsArgs {
  static constexpr const char* kName = "shift_steps";
  ConstTensorView x;      // [B, T, C]
  ConstTensorView first;  // [B, C], or undefined: 0
  TensorView y;           // [B, T, C]
};
template <class Visit>
void visit_views(ShiftStepsArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x, args.first);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

/// The ops of this file, in the order of their structs.
using RecurrentOps = OpList<LstmFwdArgs, LstmBwdArgs, ShiftStepsArgs>;

}  // namespace trireme

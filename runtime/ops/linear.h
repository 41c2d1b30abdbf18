// y = act(x W^T + b) + residual.
#pragma once

#include <utility>

#include "runtime/context.h"
#include "runtime/ops/low_rank.h"

namespace trireme::ops {

/// The input of a linear layer: a tensor, or fp8 codes that the op before made for the layer's weight alone.
struct LinearInput {
  LinearInput(Tensor tensor) : x(std::move(tensor)) {}  // NOLINT(google-explicit-constructor)
  LinearInput(Fp8Codes made, ValueId value, DType of_numbers)
      : codes(std::move(made)), id(value), dtype(of_numbers) {}

  Tensor x;  // undefined with codes
  Fp8Codes codes;
  ValueId id = kNoValue;  // of the number that the codes stand for
  DType dtype = DType::kFloat32;
};

struct LinearOptions {
  ParamRef bias;  // [N], or undefined
  Activation activation = Activation::kNone;
  Tensor residual;  // same shape as the result, or undefined: added last, in the same pass unless it is wider
  LinearCut cut = LinearCut::kNone;
  int groups = 1;  // kColumns: groups of the sum over N in the input's gradient; must divide N
};

/// Input [..., K], weight [N, K] -> [..., N], in the compute dtype (see precision.h).
/// Backward saves the input and, with an activation, the activation's argument. In mode fp8, with a weight
/// that allows it, the input is saved as transposed codes: one byte per element and a scale. See [Note: fp8]
/// in runtime/base/fp8.h. If the weight has an adapter, x (W + s B A)^T replaces x W^T, computed as x W^T + s
/// (x A^T) B^T: see [Note: adapters] in runtime/adapter.h.
Tensor linear(Context& ctx, const LinearInput& input, ParamRef weight, const LinearOptions& options = {});

/// A linear layer over some of the inputs, x W^T + b: a partial sum, computed together with the other chunks.
struct RowsLinear {
  Tensor x;       // [..., K], in the compute dtype
  Tensor weight;  // [N, K], likewise
  Tensor bias;    // [N] fp32, or undefined
  MathMode math = MathMode::kFp32;
  ValueId partial = kNoValue;  // the value of the partial sum; its gradient has the compute dtype
  RowsLowRank adapter;         // without `inner` if the weight has none
};
/// Input [..., K], weight [N, K]; `bias` may be undefined. Records the backward of the layer.
RowsLinear rows_linear(Context& ctx, const Tensor& input, ParamRef weight, ParamRef bias);

}  // namespace trireme::ops

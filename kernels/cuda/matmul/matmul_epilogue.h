// The epilogue of a product that the library has computed without one.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

/// x = product + bias; pre_activation = x; d = act(x) + residual. The product is fp32; all other views have
/// d's dtype. All views but `product` and `d` may be undefined. `product` may be `pre_activation` or `d`.
/// `residual` may be `d` unless `product` is.
struct MatmulEpilogue {
  ConstTensorView product;    // [M, N] fp32
  ConstTensorView bias;       // [N]
  TensorView pre_activation;  // [M, N]
  Activation activation = Activation::kNone;
  ConstTensorView residual;  // [M, N]
  TensorView d;              // [M, N]
  std::int64_t d_pitch = 0;  // as MatmulArgs::d_pitch; with it, no other view is `d`
};

void matmul_epilogue(const KernelContext& exec, const MatmulEpilogue& epilogue);

}  // namespace trireme::cuda

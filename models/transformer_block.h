// A pre-norm transformer layer: x + attention(norm(x)), then x + mlp(norm(x)).
#pragma once

#include "runtime/block.h"

namespace trireme {

struct TransformerBlockConfig {
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  float dropout = 0.0f;
  bool causal = true;
  float init_stddev = 0.02f;
  float residual_stddev = 0.02f;  // of the two projections into the residual stream
};

class TransformerBlock final : public Block {
 public:
  TransformerBlock(std::string name, const TransformerBlockConfig& config);
  /// [B, T, C] -> [B, T, C].
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  /// residual + dropout(x W^T + b), in one kernel where there is no dropout.
  Tensor project(Context& ctx, const Tensor& x, ParamRef weight, ParamRef bias, const Tensor& residual) const;

  TransformerBlockConfig config_;
  ParamRef norm1_weight_, norm1_bias_, qkv_weight_, qkv_bias_, attention_out_weight_, attention_out_bias_;
  ParamRef norm2_weight_, norm2_bias_, up_weight_, up_bias_, down_weight_, down_bias_;
};

}  // namespace trireme

// A post-norm transformer layer: norm(x + attention(x)), then norm(x + mlp(x)).
#pragma once

#include "runtime/block.h"

namespace trireme {

struct BertBlockConfig {
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  float dropout = 0.0f;
};

class BertBlock final : public Block {
 public:
  BertBlock(std::string name, const BertBlockConfig& config);
  /// [B, T, C] -> [B, T, C]. Every token sees all T, or with key bounds [B, T, 2], which are handed on, its
  /// document.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  struct Linear {
    ParamRef weight, bias;
  };
  Linear declare_linear(const std::string& key, std::int64_t out, std::int64_t in);
  Linear declare_norm(const std::string& key);
  /// norm(residual + dropout(x W^T + b)).
  Tensor add_and_norm(Context& ctx, const Tensor& x, const Linear& linear, const Tensor& residual,
                      const Linear& norm) const;

  BertBlockConfig config_;
  Linear qkv_, attention_out_, norm1_, up_, down_, norm2_;
};

}  // namespace trireme

// A pre-norm transformer layer: x + attention(norm(x)), then x + mlp(norm(x)).
#pragma once

#include <vector>

#include "runtime/block.h"
#include "runtime/ops/chunks.h"
#include "runtime/ops/linear.h"

namespace trireme {

struct TransformerBlockConfig {
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  float dropout = 0.0f;
  bool causal = true;
  float norm_epsilon = 1e-5f;
  float init_stddev = 0.02f;
  float residual_stddev = 0.02f;  // for both projections into the residual stream
  int chunks = 1;                 // the tensor_chunks of the model: see [Note: tensor chunks]
};

class TransformerBlock final : public Block {
 public:
  TransformerBlock(std::string name, const TransformerBlockConfig& config);
  /// [B, T, C] -> [B, T, C], and the bounds of keys if the input has them.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  /// The parameters of one chunk. Only the first chunk has the biases of row-parallel layers, which are added
  /// once.
  struct Chunk {
    ParamRef qkv_weight, qkv_bias, out_weight, out_bias;
    ParamRef up_weight, up_bias, down_weight, down_bias;
  };
  Tensor attend(Context& ctx, const Tensor& h, const Tensor& bounds, const Chunk& chunk,
                ops::LinearCut cut) const;
  Tensor widen(Context& ctx, const Tensor& h, const Chunk& chunk, ops::LinearCut cut) const;
  /// residual + dropout(x W^T + b), in one kernel without dropout.
  Tensor project(Context& ctx, const Tensor& x, ParamRef weight, ParamRef bias, const Tensor& residual) const;
  Tensor forward_chunks(Context& ctx, const Tensor& x, const Tensor& bounds) const;

  TransformerBlockConfig config_;
  ParamRef norm1_weight_, norm1_bias_, norm2_weight_, norm2_bias_;
  ops::ChunkCut cut_;
  std::vector<Chunk> chunks_;
};

}  // namespace trireme

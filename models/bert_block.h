// A post-norm transformer layer: norm(x + attention(x)), then norm(x + mlp(x)).
#pragma once

#include <vector>

#include "runtime/block.h"
#include "runtime/ops/chunks.h"
#include "runtime/ops/linear.h"

namespace trireme {

struct BertBlockConfig {
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  float dropout = 0.0f;
  float norm_epsilon = 1e-12f;
  int chunks = 1;  // the tensor_chunks of the model: see [Note: tensor chunks]
};

class BertBlock final : public Block {
 public:
  BertBlock(std::string name, const BertBlockConfig& config);
  /// [B, T, C] -> [B, T, C]. Each token attends to all T, or with key bounds [B, T, 2] to its document. Key
  /// bounds are passed on to the next layer.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  struct Linear {
    ParamRef weight, bias;
  };
  /// The parameters of one chunk. Only the first chunk has biases of the row-parallel layers `attention_out`
  /// and `down`.
  struct Chunk {
    Linear qkv, attention_out, up, down;
  };
  Linear declare_linear(const std::string& key, std::int64_t out, std::int64_t in,
                        const ParameterSlice& slice);
  Linear declare_norm(const std::string& key);
  Tensor attend(Context& ctx, const Tensor& x, const Tensor& bounds, const Chunk& chunk,
                ops::LinearCut cut) const;
  /// norm(residual + dropout(x W^T + b)).
  Tensor add_and_norm(Context& ctx, const Tensor& x, const Linear& linear, const Tensor& residual,
                      const Linear& norm) const;
  Tensor forward_chunks(Context& ctx, const Tensor& x, const Tensor& bounds) const;

  BertBlockConfig config_;
  ops::ChunkCut cut_;
  std::vector<Chunk> chunks_;
  Linear norm1_, norm2_;
};

}  // namespace trireme

// A layer of Llama: x + attention(norm(x)), then x + mlp(norm(x)).
#pragma once

#include <vector>

#include "runtime/block.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/chunks.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/rope.h"

namespace trireme {

struct LlamaBlockConfig {
  std::int64_t hidden = 2048;
  std::int64_t heads = 32;
  std::int64_t kv_heads = 8;
  std::int64_t head_dim = 64;
  std::int64_t ffn = 8192;
  RopeFrequencies rope;
  bool qkv_bias = false;
  bool qk_norm = false;  // needs chunks = 1
  float norm_epsilon = 1e-5f;
  float init_stddev = 0.02f;
  float residual_stddev = 0.02f;  // for both projections into the residual stream
  int chunks = 1;                 // the tensor_chunks of the model: see [Note: tensor chunks]
};

class LlamaBlock final : public Block {
 public:
  LlamaBlock(std::string name, const LlamaBlockConfig& config);
  /// [B, T, C] -> [B, T, C], and the bounds of keys if the input has them.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  struct Chunk {
    ParamRef qkv_weight, qkv_bias, out_weight, gate_up_weight, down_weight;
  };
  ops::QkvProjection projection(const Chunk& chunk, ops::LinearCut cut, const ops::RopeOptions& rope) const;
  Tensor attend(Context& ctx, const Tensor& h, const Tensor& bounds, const Chunk& chunk,
                ops::LinearCut cut) const;
  Tensor widen(Context& ctx, Tensor h, const Chunk& chunk, ops::LinearCut cut) const;
  Tensor forward_chunks(Context& ctx, const Tensor& x, const Tensor& bounds) const;

  LlamaBlockConfig config_;
  ParamRef norm1_weight_, norm2_weight_;
  ParamRef q_norm_weight_, k_norm_weight_;  // undefined without qk_norm
  ops::ChunkCut cut_;
  std::vector<Chunk> chunks_;
};

}  // namespace trireme

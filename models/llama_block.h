// A layer of Llama: x + attention(norm(x)), then x + mlp(norm(x)). With other norm positions, x +
// norm(attention(x)) or x + norm(attention(norm(x))), and likewise the MLP.
#pragma once

#include <vector>

#include "models/decoder_switches.h"
#include "runtime/block.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/chunks.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/rope.h"

namespace trireme {

struct LlamaBlockConfig {
  std::int64_t hidden = 2048;
  std::int64_t heads = 32;
  std::int64_t kv_heads = 8;
  std::int64_t head_dim = 64;
  std::int64_t ffn = 8192;
  RopeFrequencies rope;      // no pairs: no rotation
  float score_scale = 0.0f;  // 0: 1 / sqrt(head_dim)
  std::int64_t window = 0;
  bool qkv_bias = false;
  QkNorm qk_norm = QkNorm::kNone;  // kWhole needs chunks = 1
  NormPosition norm_position = NormPosition::kBefore;
  bool norm_unit_offset = false;
  MlpGate mlp_gate = MlpGate::kSilu;
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
  void declare_gains();
  ops::QkvProjection projection(const Chunk& chunk, ops::LinearCut cut, const ops::RopeOptions& rope) const;
  Tensor attend(Context& ctx, const Tensor& h, const Tensor& bounds, const Chunk& chunk,
                ops::LinearCut cut) const;
  ops::LinearInput widen(Context& ctx, Tensor h, const Chunk& chunk, ops::LinearCut cut) const;
  Tensor forward_chunks(Context& ctx, const Tensor& x, const Tensor& bounds) const;

  /// The norm of a branch's input; x without one.
  Tensor norm_before(Context& ctx, const Tensor& x, ParamRef weight) const;
  /// x + the branch's output, which has a norm if `weight` is defined.
  Tensor add_branch(Context& ctx, const Tensor& branch, const Tensor& x, ParamRef weight) const;
  ops::NormOptions norm_options() const;

  LlamaBlockConfig config_;
  ParamRef norm1_weight_, norm2_weight_;              // of inputs; undefined with NormPosition::kAfter
  ParamRef attention_norm_weight_, mlp_norm_weight_;  // of outputs; undefined with NormPosition::kBefore
  ParamRef q_norm_weight_, k_norm_weight_;            // undefined without qk_norm
  ops::ChunkCut cut_;
  std::vector<Chunk> chunks_;
};

}  // namespace trireme

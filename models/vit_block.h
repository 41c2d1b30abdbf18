// A pre-norm transformer layer for images: x + attention(norm(x)), then x + mlp(norm(x)), with exact GELU and
// stochastic depth on both branches (Dosovitskiy et al. 2021; Huang et al. 2016).
//
// [Note: class token only] A model that pools by its class token needs the keys and values of all tokens in
// its last layer. The rest of that layer, output projection and MLP, is three quarters of its products and is
// needed only for the class token, because the gradient of every other row is zero. So the last layer outputs
// the class token only. This saves 6 % of a 12-layer model's operations.
#pragma once

#include <vector>

#include "runtime/block.h"
#include "runtime/ops/chunks.h"
#include "runtime/ops/linear.h"

namespace trireme {

inline constexpr float kVitInitStddev = 0.02f;

struct VitBlockConfig {
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  std::int64_t ffn = 3072;
  bool qkv_bias = true;
  float norm_epsilon = 1e-6f;
  float dropout = 0.0f;           // on attention probabilities and both residual branches
  float stochastic_depth = 0.0f;  // probability that a sample skips a branch
  int chunks = 1;                 // the tensor_chunks of the model: see [Note: tensor chunks]
  bool class_token_only = false;  // see [Note: class token only]
};

class VitBlock final : public Block {
 public:
  /// Parameters have the names of torchvision's EncoderBlock, after `prefix`.
  VitBlock(std::string name, std::string prefix, const VitBlockConfig& config);
  /// [B, T, C] -> [B, T, C], or [B, 1, C] with class_token_only. Each token attends to all T.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;
  std::string variant() const override {
    return std::string(config_.class_token_only ? "class token only " : "") +
           (config_.stochastic_depth > 0 ? "stochastic depth" : "");
  }

 private:
  struct Linear {
    ParamRef weight, bias;
  };
  /// The parameters of one chunk. Only the first chunk has biases of the row-parallel layers `out` and
  /// `down`.
  struct Chunk {
    Linear qkv, out, up, down;
  };
  /// An empty `bias` declares none.
  Linear declare_linear(const std::string& weight, const std::string& bias, std::int64_t out, std::int64_t in,
                        const ParameterSlice& slice);
  Linear declare_norm(const std::string& key);
  Tensor attend(Context& ctx, const Tensor& h, const Chunk& chunk, ops::LinearCut cut) const;
  Tensor widen(Context& ctx, const Tensor& h, const Chunk& chunk, ops::LinearCut cut) const;
  /// residual + drop_path(dropout(x W^T + b)).
  Tensor add_branch(Context& ctx, const Tensor& x, const Linear& linear, const Tensor& residual) const;
  /// residual + drop_path(dropout(y)).
  Tensor add_dropped(Context& ctx, const Tensor& y, const Tensor& residual) const;
  /// `x`, or only its class token if this layer outputs nothing else.
  Tensor given_on(Context& ctx, const Tensor& x) const;
  Tensor forward_chunks(Context& ctx, const Tensor& x) const;

  VitBlockConfig config_;
  Linear norm1_, norm2_;
  ops::ChunkCut cut_;
  std::vector<Chunk> chunks_;
};

/// The stochastic depth of layer `layer` of `layers`: from 0 at the first to `rate` at the last (Huang et al.
/// 2016).
float stochastic_depth_of_layer(float rate, std::int64_t layer, std::int64_t layers);

}  // namespace trireme

// Final norm, projection to the vocabulary, and the loss.
#pragma once

#include <string>
#include <vector>

#include "runtime/block.h"
#include "runtime/ops/layer_norm.h"

namespace trireme {

struct TokenHeadConfig {
  std::int64_t vocab = 1, hidden = 1;
  bool tied = true;               // uses the table of TokenEmbedding
  bool rms_norm = false;          // in place of layer norm
  bool norm_unit_offset = false;  // the norm multiplies by 1 + weight
  float norm_epsilon = 1e-5f;
  int chunks = 1;               // chunks of the vocabulary, must divide it; if tied, as in TokenEmbedding
  int layer_chunks = 1;         // chunks of the preceding blocks
  std::int64_t loss_parts = 1;  // needs chunks = 1: see ops::linear_cross_entropy()
  float init_stddev = 0.02f;
};

class TokenHead final : public Block {
 public:
  explicit TokenHead(const TokenHeadConfig& config);
  /// [B, T, C] -> the loss over batch.targets, or without targets the logits [B, T, V].
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;
  std::string variant() const override {
    return loss_parts_ == 1 ? "" : std::to_string(loss_parts_) + " loss parts";
  }

 private:
  Activations forward_chunks(Context& ctx, const Tensor& x, const Batch& batch) const;

  ops::NormOptions norm_;
  ParamRef norm_weight_, norm_bias_;  // norm_bias_ is unused with RMS norm
  std::vector<ParamRef> weights_;     // by chunk
  std::int64_t loss_parts_;
};

}  // namespace trireme

// The head of an image transformer: final norm, pooling to one token, classifier and loss.
#pragma once

#include <cstdint>

#include "runtime/block.h"

namespace trireme {

/// Pools the tokens to the classifier's input.
enum class TokenPool : std::uint8_t {
  kClassToken,  // the first token (Dosovitskiy et al. 2021)
  kMean,        // the mean of all tokens
  kSequence,    // a mean with learned weights (Hassani et al. 2021)
};

struct TokenPoolHeadConfig {
  std::string prefix;                                             // of parameter names
  std::string norm = "norm", pool = "pool", classes_name = "fc";  // their names
  std::int64_t hidden = 768;
  std::int64_t classes = 1000;
  TokenPool pool_kind = TokenPool::kClassToken;
  float norm_epsilon = 1e-6f;
  float label_smoothing = 0.0f;
};

class TokenPoolHead final : public Block {
 public:
  explicit TokenPoolHead(const TokenPoolHeadConfig& config);
  /// [B, T, C] -> the loss over batch.targets, or without targets the logits [B, classes].
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  Tensor pooled(Context& ctx, const Tensor& x) const;

  TokenPool pool_;
  float norm_epsilon_, label_smoothing_;
  ParamRef norm_weight_, norm_bias_, pool_weight_, pool_bias_, weight_, bias_;
};

}  // namespace trireme

// Keys of config.json that have no effect on what a model computes, each with the reason, and keys that no
// model here supports.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace trireme {

/// Keys without effect on the forward pass, for the same reason.
struct HfIdleKeys {
  std::string_view reason;
  std::span<const std::string_view> keys;
};

/// Keys shared by all models of transformers.
extern const std::span<const HfIdleKeys> kIdleHfKeys;

/// A dropout other than 0 is added to the notes: the job sets dropout.
inline constexpr std::array<std::string_view, 8> kHfDropoutKeys{
    "hidden_dropout_prob", "attention_probs_dropout_prob",
    "classifier_dropout",  "attention_dropout",
    "embd_pdrop",          "attn_pdrop",
    "resid_pdrop",         "hidden_dropout"};

/// Keys that change the weights or the code of a model. Null, false and empty values have no effect.
inline constexpr std::array<std::string_view, 8> kRefusedHfKeys{
    "quantization_config", "auto_map", "per_layer_config",    "pruned_heads",
    "is_encoder_decoder",  "adapters", "add_cross_attention", "use_bidirectional_attention"};

}  // namespace trireme

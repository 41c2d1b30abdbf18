// Tiny models of every type of transformers that is read and written.
#pragma once

#include <map>
#include <string>

#include "models/bert_hf.h"
#include "models/gpt_hf.h"
#include "models/llama_hf.h"
#include "models/vit_hf.h"
#include "runtime/ops/rope.h"
#include "tests/support/temporary_folder.h"

namespace trireme::testing {

inline const GptConfig kGpt{.layers = 2, .hidden = 21, .heads = 3, .vocab = 37, .seq_len = 11, .tied = false};
inline const BertConfig kBert{.layers = 2, .hidden = 21, .heads = 3, .vocab = 37, .seq_len = 11};
inline const LlamaConfig kLlama{
    .layers = 2,
    .hidden = 36,
    .heads = 6,
    .kv_heads = 2,
    .ffn = 50,
    .vocab = 37,
    .seq_len = 11,
    .rope_theta = 100.0,
    .rope_scaling = {.factor = 2.0, .low_freq_factor = 1.5, .original_context = 7},
    .tied = true};

inline LlamaConfig tiny_qwen2() {
  LlamaConfig config = kLlama;
  config.head_width = 10, config.qkv_bias = true, config.rope_scaling = {};
  return config;
}

inline LlamaConfig tiny_qwen3() {
  LlamaConfig config = kLlama;
  config.head_width = 10, config.qk_norm = QkNorm::kHead, config.tied = false;
  return config;
}

/// Tiny models of the other types, with every switch of theirs.
inline LlamaConfig tiny_mistral() {
  LlamaConfig config = kLlama;
  config.window = 5;
  config.rope_scaling = {.kind = ops::RopeScaling::Kind::kLinear, .factor = 2.0};
  return config;
}

inline LlamaConfig tiny_smollm3() {
  LlamaConfig config = kLlama;
  config.layers = 4, config.layer_pattern = "fn";
  config.rope_scaling = {.kind = ops::RopeScaling::Kind::kYarn,
                         .factor = 2.0,
                         .low_freq_factor = 1.0,
                         .high_freq_factor = 32.0,
                         .original_context = 7,
                         .attention_factor = 1.25};
  return config;
}

inline LlamaConfig tiny_olmo2() {
  LlamaConfig config = kLlama;
  config.qk_norm = QkNorm::kWhole, config.norm_position = NormPosition::kAfter, config.tied = false;
  return config;
}

inline LlamaConfig tiny_olmo3() {
  LlamaConfig config = tiny_olmo2();
  config.layers = 3, config.window = 5, config.layer_pattern = "wwf", config.rope_local_theta = 50.0;
  return config;
}

inline LlamaConfig tiny_gemma3() {
  LlamaConfig config = kLlama;
  config.head_width = 10, config.layers = 3, config.qk_norm = QkNorm::kHead;
  config.norm_position = NormPosition::kBoth, config.norm_unit_offset = true;
  config.mlp_gate = MlpGate::kGelu, config.embedding_scale = 6.0, config.query_scalar = 7.0;
  config.window = 5, config.layer_pattern = "wwf", config.rope_local_theta = 10.0;
  return config;
}

inline const std::map<std::string, LlamaConfig>& tiny_decoders() {
  static const std::map<std::string, LlamaConfig> decoders{
      {kLlamaHfType, kLlama},       {kMistralHfType, tiny_mistral()}, {kQwen2HfType, tiny_qwen2()},
      {kQwen3HfType, tiny_qwen3()}, {kSmolLm3HfType, tiny_smollm3()}, {kOlmo2HfType, tiny_olmo2()},
      {kOlmo3HfType, tiny_olmo3()}, {kGemma3HfType, tiny_gemma3()}};
  return decoders;
}

inline constexpr const char* kClassifier = "a classifier";  // with kBert's shape
inline BertConfig classifier() {
  BertConfig config = kBert;
  config.classes = 3;
  return config;
}

inline const VitConfig kVit{.layers = 2,
                            .hidden = 21,
                            .heads = 3,
                            .ffn = 34,
                            .patch = 4,
                            .image_size = 12,
                            .classes = 5,
                            .norm_epsilon = 1e-12};

/// config.json with some values replaced; null removes one.
inline HfConfig config_with(const TemporaryFolder& folder, const HfModel& model,
                            const nlohmann::json& changes) {
  nlohmann::json config = model.config;
  config.merge_patch(changes);
  write_file(folder / "config.json", config.dump());
  return HfConfig(folder.path());
}

}  // namespace trireme::testing

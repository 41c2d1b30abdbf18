// Llama and its relatives in the format of Hugging Face's transformers: config.json and tensor names. Both
// sides pair the two halves of a head in rotary positions, so no permutation is needed.
#pragma once

#include "models/llama.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_model.h"

namespace trireme {

// model_type of config.json. A Mistral without a sliding window is a Llama, and is written as one.
inline constexpr const char* kLlamaHfType = "llama";
inline constexpr const char* kMistralHfType = "mistral";
inline constexpr const char* kQwen2HfType = "qwen2";  // Qwen2 and Qwen2.5
inline constexpr const char* kQwen3HfType = "qwen3";  // dense Qwen3
inline constexpr const char* kSmolLm3HfType = "smollm3";
inline constexpr const char* kOlmo2HfType = "olmo2";
inline constexpr const char* kOlmo3HfType = "olmo3";
inline constexpr const char* kGemma3HfType = "gemma3_text";  // the text model

/// The shape, with a context of at most 2048 tokens, as in llama_config_for_size(). Throws
/// Error(kInvalidInput) for an invalid number, and Error(kUnsupported) naming the key if build_llama() does
/// not support a value.
LlamaConfig llama_from_hf(const HfConfig& config);

/// config.json of llama_to_hf(). Contains every value of `config` that affects a forward pass.
nlohmann::ordered_json llama_hf_config(const LlamaConfig& config);

/// The first type, in the order above, that computes the switches of `config`: a LlamaForCausalLM without
/// any. Throws Error(kUnsupported) if no type does.
HfModel llama_to_hf(const LlamaConfig& config);

}  // namespace trireme

// Llama in the format of Hugging Face's transformers: its config.json, the names of its tensors. Both sides
// turn the halves of a head, so rotary positions need no permutation.
#pragma once

#include "models/llama.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_model.h"

namespace trireme {

inline constexpr const char* kLlamaHfType = "llama";  // model_type of config.json

/// The shape, with a context of at most 2048 tokens, as those of llama_config_for_size() have. Throws
/// Error(kInvalidInput) for a number that makes no sense, Error(kUnsupported) naming the key of what
/// build_llama() does not compute.
LlamaConfig llama_from_hf(const HfConfig& config);

/// config.json of llama_to_hf(). Every value of `config` that a forward pass depends on is in it.
nlohmann::ordered_json llama_hf_config(const LlamaConfig& config);

/// LlamaForCausalLM of this shape.
HfModel llama_to_hf(const LlamaConfig& config);

}  // namespace trireme

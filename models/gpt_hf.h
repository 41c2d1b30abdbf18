// GPT-2 in the format of Hugging Face's transformers: its config.json, the names of its tensors. They keep
// the matrices of linear layers transposed.
#pragma once

#include "models/gpt.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_model.h"

namespace trireme {

inline constexpr const char* kGptHfType = "gpt2";  // model_type of config.json

/// The shape. Dropout is left out: it is a choice of the training. Throws Error(kInvalidInput) for a number
/// that makes no sense, Error(kUnsupported) naming the key of what build_gpt() does not compute.
GptConfig gpt_from_hf(const HfConfig& config);

/// config.json of gpt_to_hf(). Every value of `config` that a forward pass depends on is in it.
nlohmann::ordered_json gpt_hf_config(const GptConfig& config);

/// GPT2LMHeadModel of this shape.
HfModel gpt_to_hf(const GptConfig& config);

}  // namespace trireme

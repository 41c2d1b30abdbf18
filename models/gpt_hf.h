// GPT-2 in the format of Hugging Face's transformers: config.json and tensor names. The matrices of linear
// layers are stored transposed there.
#pragma once

#include "models/gpt.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_model.h"

namespace trireme {

inline constexpr const char* kGptHfType = "gpt2";  // model_type of config.json

/// The shape. Dropout is left out because it is a training option. Throws Error(kInvalidInput) for an invalid
/// number, and Error(kUnsupported) naming the key if build_gpt() does not support a value.
GptConfig gpt_from_hf(const HfConfig& config);

/// config.json of gpt_to_hf(). Contains every value of `config` that affects a forward pass.
nlohmann::ordered_json gpt_hf_config(const GptConfig& config);

/// A GPT2LMHeadModel of this shape.
HfModel gpt_to_hf(const GptConfig& config);

}  // namespace trireme

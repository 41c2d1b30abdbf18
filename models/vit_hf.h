// ViT in the format of Hugging Face's transformers: its config.json, the names of its tensors.
#pragma once

#include "models/vit.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_model.h"

namespace trireme {

inline constexpr const char* kVitHfType = "vit";  // model_type of config.json
inline constexpr const char* kVitHfClassifier = "ViTForImageClassification";

/// The shape. Throws Error(kInvalidInput) for a number that makes no sense, Error(kUnsupported) naming the
/// key of what build_vit() does not compute.
VitConfig vit_from_hf(const HfConfig& config);

/// config.json of vit_to_hf(). Every value of `config` that a forward pass depends on is in it.
nlohmann::ordered_json vit_hf_config(const VitConfig& config);

/// ViTForImageClassification of this shape. The pooler of ViTModel is left out by name. Throws
/// Error(kUnsupported) for a mean of tokens, which theirs does not have.
HfModel vit_to_hf(const VitConfig& config);

}  // namespace trireme

// ViT in the format of Hugging Face's transformers: config.json and tensor names.
#pragma once

#include "models/vit.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_model.h"

namespace trireme {

inline constexpr const char* kVitHfType = "vit";  // model_type of config.json
inline constexpr const char* kVitHfClassifier = "ViTForImageClassification";

/// The shape. Throws Error(kInvalidInput) for an invalid number, and Error(kUnsupported) naming the key if
/// build_vit() does not support a value.
VitConfig vit_from_hf(const HfConfig& config);

/// config.json of vit_to_hf(). Contains every value of `config` that affects a forward pass.
nlohmann::ordered_json vit_hf_config(const VitConfig& config);

/// A ViTForImageClassification of this shape. The pooler of ViTModel is left out by name. Throws
/// Error(kUnsupported) for mean pooling, which their class does not have.
HfModel vit_to_hf(const VitConfig& config);

}  // namespace trireme

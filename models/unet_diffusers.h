// UNets in the format of Hugging Face's diffusers: config.json and tensor names.
#pragma once

#include "models/unet.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_model.h"

namespace trireme {

inline constexpr const char* kDiffusersVersion = "0.42.1";  // compared by tests/parity
// _class_name of config.json.
inline constexpr const char* kUnet2dClass = "UNet2DModel";
inline constexpr const char* kUnet2dConditionClass = "UNet2DConditionModel";

/// The shape. Throws Error(kInvalidInput) for an invalid number, and Error(kUnsupported) naming the key if
/// build_unet() does not support a value.
UnetConfig unet_from_diffusers(const HfConfig& config);

/// config.json of unet_to_diffusers(), for images of `image_size` pixels (0: any). Contains every value of
/// `config` that affects a forward pass. Throws Error(kUnsupported) for heads that their class cannot have.
nlohmann::ordered_json unet_diffusers_config(const UnetConfig& config, std::int64_t image_size);

/// A UNet2DConditionModel of this shape if it has a condition, else a UNet2DModel. The names of tensors are
/// ours, except packed queries, keys and values, which diffusers keeps in three tensors.
HfModel unet_to_diffusers(const UnetConfig& config, std::int64_t image_size);

}  // namespace trireme

// The folders of Hugging Face's libraries: one network for transformers, a pipeline for diffusers.
#pragma once

#include <cstdint>
#include <filesystem>

namespace trireme {

/// The library that a folder is written for. Both read a config.json and safetensors files.
enum class HfLibrary : std::uint8_t { kTransformers, kDiffusers };

/// The name of the file of weights, without ".safetensors".
const char* weights_stem(HfLibrary library);

inline constexpr const char* kHfConfigFile = "config.json";
inline constexpr const char* kDiffusersIndexFile = "model_index.json";  // of a pipeline
inline constexpr const char* kDiffusersNetwork = "unet";                // the network's folder in a pipeline

/// The folder that holds the config.json of the network: `folder`, or unet/ in a pipeline of diffusers.
/// Throws Error(kInvalidInput) for a pipeline without it.
std::filesystem::path hf_network_folder(const std::filesystem::path& folder);

/// True if hf_network_folder() has a config.json.
bool is_hf_folder(const std::filesystem::path& folder);

}  // namespace trireme

// Models out of and into folders of Hugging Face's transformers.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "launcher/config/config.h"
#include "runtime/checkpoint/hf_model.h"
#include "runtime/checkpoint/tensor_source.h"

namespace trireme {

/// The name and shape that `folder`/config.json decides. Throws Error naming the file and the key: an unknown
/// architecture, with those that are known, or what the family does not compute.
ModelSection model_of_hf_folder(const std::filesystem::path& folder);

/// A filled in model in their format. Throws Error(kUnsupported) for a family that has none.
HfModel hf_model_of(const ModelSection& model);

/// The weights that model.init_from names: a folder of theirs, whose config.json must make the same model, or
/// a safetensors file. Throws Error(kInvalidInput).
std::unique_ptr<TensorSource> open_initial_weights(const ModelSection& model);

/// The keys that settle a difference between those weights and the model; empty: there are none.
std::string describe_remedy(const ModelSection& model, const TensorMismatch& mismatch);

}  // namespace trireme

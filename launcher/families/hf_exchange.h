// Imports and exports models in the format of Hugging Face transformers.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/config/config.h"
#include "runtime/checkpoint/hf_model.h"

namespace trireme {

/// Marks a folder of transformers in model.from, in options and in places of weights: "hf:FOLDER".
inline constexpr std::string_view kHfPrefix = "hf:";
/// The folder after the prefix; null without the prefix, and without a folder.
std::optional<std::string> hf_folder_in(std::string_view text);

/// The model defined by `folder`/config.json. Throws Error naming file and key for an unknown architecture,
/// with the known ones, or a value that the family does not support. `notes`, unless null, receives a line
/// for the log for each ignored value.
ModelSection model_of_hf_folder(const std::filesystem::path& folder,
                                std::vector<std::string>* notes = nullptr);

/// `model`, which must be filled in, in transformers' format. Its classes are named `class_names`, further
/// ones LABEL_i. Throws Error(kUnsupported) for a family without this format.
HfModel hf_model_of(const ModelSection& model, const std::vector<std::string>& class_names = {});

}  // namespace trireme

// What is known of the data that the weights of model.init_from were trained on: the record of a checkpoint,
// the header of a file of `trireme export`, or the tokenizer and preprocessor_config.json of a folder of
// Hugging Face's transformers.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/train/data_record.h"

namespace trireme {

struct WeightsRecord {
  std::string place;  // for messages; empty: nothing is there
  DataRecord data;
  std::vector<std::string> notes;  // what cannot be compared, and why
};

/// Of what `init_from` names. The files of a transformers' folder are compared with `met`, and read only
/// where `met` knows a value to compare. Throws Error(kInvalidInput) for damaged files.
WeightsRecord record_of_weights(const std::filesystem::path& init_from, const DataRecord& met);

/// Adds the tokenizer and the normalisation to the metadata of a safetensors file.
void add_data_record(const DataRecord& record, std::map<std::string, std::string>& metadata);

inline constexpr const char* kHfPreprocessorFile = "preprocessor_config.json";

/// The content of preprocessor_config.json for pictures of these keys.
nlohmann::ordered_json hf_preprocessor_of(const ImageRecord& images);

/// The keys that preprocessor_config.json at `file` gives the same pictures with; size 0: any. Pixels are
/// taken from 0 to 1 here: another rescale_factor, or none, is a part of mean and std. Throws
/// Error(kInvalidInput) naming the key of a damaged file.
ImageRecord image_record_of_hf(const std::filesystem::path& file);

}  // namespace trireme

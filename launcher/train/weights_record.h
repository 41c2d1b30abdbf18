// The known facts about the training data of the weights in model.init_from. They come from a checkpoint's
// record, the header of a `trireme export` file, or the tokenizer and preprocessor_config.json of a Hugging
// Face transformers folder.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/data/data_record.h"

namespace trireme {

struct WeightsRecord {
  std::string place;  // for messages; empty: no record
  DataRecord data;
  std::vector<std::string> notes;  // facts that cannot be compared, and why
};

/// The record for `init_from`. Files of a transformers folder are compared with `met`, and read only if `met`
/// has a value to compare. Throws Error(kInvalidInput) for damaged files.
WeightsRecord record_of_weights(const std::filesystem::path& init_from, const DataRecord& met);

/// Adds tokenizer and normalisation to the metadata of a safetensors file.
void add_data_record(const DataRecord& record, std::map<std::string, std::string>& metadata);

inline constexpr const char* kHfPreprocessorFile = "preprocessor_config.json";

/// The content of preprocessor_config.json for these image keys.
nlohmann::ordered_json hf_preprocessor_of(const ImageRecord& images);

/// The image keys equivalent to preprocessor_config.json at `file`; size 0: any. Our pixels range from 0 to
/// 1, so another rescale_factor, or none, is folded into mean and std. Throws Error(kInvalidInput) naming the
/// key of a damaged file.
ImageRecord image_record_of_hf(const std::filesystem::path& file);

}  // namespace trireme

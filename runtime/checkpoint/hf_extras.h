// The parts of a Hugging Face folder that describe use, not mathematics: special tokens, context, settings of
// generation, the chat template. A run that starts from such a folder keeps them in its checkpoints, and an
// export writes them again, so that a fine-tuned model stops where its base did.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace trireme {

struct HfExtras {
  nlohmann::json special_tokens = nlohmann::json::object();  // bos_token_id, ... of config.json
  std::map<std::string, std::string> files;                  // generation_config.json, ...: name -> text
  std::int64_t context = 0;  // max_position_embeddings of config.json; 0: none

  bool empty() const { return special_tokens.empty() && files.empty() && context == 0; }
};

/// Reads what the folder has of them. Throws Error(kInvalidInput) naming a file that is too large, is not
/// JSON, or lies outside of the folder, and a key of config.json that is not a token id or a list of ids.
HfExtras read_hf_extras(const std::filesystem::path& folder);

/// The entry of a manifest.
nlohmann::json to_json(const HfExtras& extras);
/// Throws nlohmann's exceptions, and Error(kInvalidInput) for a file that read_hf_extras() does not read.
HfExtras hf_extras_of(const nlohmann::json& json);

/// Sets the special tokens in a config.json, and max_position_embeddings if that is there and below the
/// context: a run may train on shorter samples than the model reads.
void add_extras(const HfExtras& extras, nlohmann::ordered_json& config);

/// Writes the files into `folder`, each atomically.
void write_hf_extras(const HfExtras& extras, const std::filesystem::path& folder);

}  // namespace trireme

// Loads the tokenizer of a Hugging Face folder, choosing the right file.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/data/tokenizer.h"

namespace trireme {

/// Reads tokenizer.json, or tokenizer.model (sentencepiece), or vocab.json and merges.txt. If tokenizer.json
/// was converted from the sentencepiece model next to it, reads the model and logs this. A tokenizer.json of
/// bytes is the tokenizer "bytes". Throws
/// Error(kInvalidInput) naming these files if the folder has none of them, and naming the first token that
/// the files next to a sentencepiece model add to it.
std::unique_ptr<Tokenizer> load_tokenizer_folder(const std::filesystem::path& folder);

}  // namespace trireme

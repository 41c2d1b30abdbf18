// The tokenizer of a folder of Hugging Face's: which of its files is read.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/data/tokenizer.h"

namespace trireme {

/// Reads tokenizer.json, or tokenizer.model (sentencepiece), or vocab.json and merges.txt. Where
/// tokenizer.json holds what was converted from the sentencepiece model beside it, the model is read, which
/// is logged. Throws Error(kInvalidInput) naming these files where the folder has none of them, and naming
/// the first token that the files beside a sentencepiece model add to it.
std::unique_ptr<Tokenizer> load_tokenizer_folder(const std::filesystem::path& folder);

}  // namespace trireme

// A byte-level BPE vocabulary as its files hold it: `tokenizer.json` of Hugging Face's tokenizers, or GPT-2's
// vocab.json and merges.txt.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/data/byte_pairs.h"

namespace trireme {

struct BpeModel {
  /// Found in the text before it is cut: "<|endoftext|>".
  struct Added {
    std::string content;
    std::int32_t id = 0;
    bool normalized = false;  // looked for in what lies between those that are not
  };
  BytePairs::Learned learned;
  std::vector<std::pair<std::string, std::int32_t>> unreachable;  // tokens that no bytes of a text give
  std::vector<Added> added;
  std::vector<std::string> patterns;  // of PCRE2, that cut the text one after the other
  std::string text;                   // of a tokenizer.json that says the same
};

/// Reads a tokenizer.json, or a folder that has one, or vocab.json and merges.txt (see bpe_folder.h). Throws
/// Error(kInvalidInput) naming the file and what is missing, damaged, or of a kind that is not known.
BpeModel read_bpe_model(const std::filesystem::path& path);

/// The bytes of a token as files write them: a character for each, those of Latin-1 that print themselves,
/// the others from U+0100 on. What is no such character stays as it is.
std::string bytes_of_token(std::string_view written);
/// The other way.
std::string written_token(std::string_view bytes);

}  // namespace trireme

// A byte-level BPE vocabulary as stored in files: `tokenizer.json` of Hugging Face's tokenizers, or GPT-2's
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
  /// Matched in the text before it is split: "<|endoftext|>".
  struct Added {
    std::string content;
    std::int32_t id = 0;
    bool normalized = false;  // matched only between the tokens that are not normalized
  };
  BytePairs::Learned learned;
  std::vector<std::pair<std::string, std::int32_t>> unreachable;  // tokens that no text produces
  std::vector<Added> added;
  std::vector<std::string> patterns;  // PCRE2; applied one after the other
  std::string text;                   // the text of an equivalent tokenizer.json
};

/// Reads a tokenizer.json, a folder with one, or a folder with vocab.json and merges.txt (see bpe_folder.h).
/// Throws Error(kInvalidInput) naming the file and the part that is missing, damaged or unsupported.
BpeModel read_bpe_model(const std::filesystem::path& path);

/// The bytes of a token as written in files: one character per byte. Printable Latin-1 characters stand for
/// themselves; the others start at U+0100. Other characters stay unchanged.
std::string bytes_of_token(std::string_view written);
/// The inverse of bytes_of_token().
std::string written_token(std::string_view bytes);

/// The text of a tokenizer.json with one token per byte, whose ids are the bytes: byte-level BPE without
/// merges.
std::string tokenizer_json_of_bytes();

}  // namespace trireme

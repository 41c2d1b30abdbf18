// Trains a subword vocabulary (byte-pair encoding) with sentencepiece, and lists the pieces of a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>

namespace trireme {

struct SentencePieceTraining {
  std::int64_t vocab_size = 0;             // at least 256 bytes, 3 control tokens and the characters seen
  double character_coverage = 0.9995;      // share of characters with a token; the rest falls back to bytes
  std::int64_t max_sentences = 1'000'000;  // lines drawn from the inputs
};

/// Trains a BPE model on text files and writes it to `model`, atomically. Decoding gives every text back
/// unchanged, except the character U+2581, which sentencepiece uses for the space: there is no normalisation,
/// and text without a token becomes bytes. Throws Error(kInvalidInput) if an input cannot be read, or the
/// vocabulary is too large for the text or too small for its characters.
void train_sentencepiece(std::span<const std::filesystem::path> inputs, const std::filesystem::path& model,
                         const SentencePieceTraining& options);

/// The ids of a model's pieces, with U+2581 for the space. Throws Error(kInvalidInput) if the file is missing
/// or not a model.
std::unordered_map<std::string, std::int64_t> sentencepiece_pieces(const std::filesystem::path& model);

/// Properties of a model that other programs need to make the same tokens.
struct SentencePieceFacts {
  /// BPE with byte fallback that neither normalises text nor adds or removes spaces, as train_sentencepiece()
  /// writes. The LlamaTokenizer of transformers gives other ids for all other models.
  bool is_plain_bpe = false;
  std::string unk, bos, eos;  // texts of special tokens; empty: none
};

/// Throws Error(kInvalidInput) if the file is missing or not a model.
SentencePieceFacts sentencepiece_facts(const std::filesystem::path& model);

}  // namespace trireme

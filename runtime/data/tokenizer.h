// Text to token ids and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

inline constexpr std::string_view kByteTokenizer = "bytes", kSentencePieceTokenizer = "sentencepiece",
                                  kBpeTokenizer = "bpe";

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// One of the names above.
  virtual std::string_view kind() const = 0;
  virtual std::int64_t vocab_size() const = 0;
  /// Thread-safe, like decode().
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// Throws Error(kInvalidInput) for an id outside of [0, vocab_size()).
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// The separator of two documents in a stream of tokens.
  virtual std::vector<std::int32_t> document_separator() const = 0;
  /// Of the file that saves it; empty where it needs none.
  virtual std::string model_text() const { return {}; }
};

/// The name of the file that saves a tokenizer of this kind: "tokenizer.model", "tokenizer.json"; empty where
/// it needs none.
std::string_view tokenizer_file(std::string_view kind);

/// The tokenizer whose file was saved in `folder`. Throws Error(kInvalidInput) for a kind that is not known,
/// and for a file that is a link out of the folder.
std::unique_ptr<Tokenizer> load_saved_tokenizer(std::string_view kind, const std::filesystem::path& folder);

/// One token a byte: vocabulary 256, nothing to train, every text comes back as it was. Documents are
/// separated by an empty line.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// A sentencepiece model of any type. Documents are separated by its end-of-sentence token, or by an empty
/// line where it has none. Throws Error(kInvalidInput) when the file is missing or not a model.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& model);

/// Byte-level BPE from a tokenizer.json, or a folder with one or with vocab.json and merges.txt. Every text
/// comes back as it was. Texts of its added tokens, such as "<|endoftext|>", are those tokens. Documents are
/// separated by its end-of-text token, and what begins a text where it has that. Throws Error(kInvalidInput)
/// when a file is missing, or says what is not known here.
std::unique_ptr<Tokenizer> load_bpe(const std::filesystem::path& path);

/// "bytes", the path of a sentencepiece model, of a .json file of byte-level BPE, or of a folder with either
/// (see tokenizer_folder.h): what `--tokenizer` takes.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_model);

}  // namespace trireme

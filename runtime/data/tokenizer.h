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
  /// As encode(), for text that a chat template wrote: texts of control tokens, such as "</s>", become these
  /// tokens.
  virtual std::vector<std::int32_t> encode_chat(std::string_view text) const { return encode(text); }
  /// The reverse: the texts of control tokens included, which decode() may leave out.
  virtual std::string decode_chat(std::span<const std::int32_t> ids) const { return decode(ids); }
  /// Throws Error(kInvalidInput) for an id outside of [0, vocab_size()).
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// The separator of two documents in a stream of tokens.
  virtual std::vector<std::int32_t> document_separator() const = 0;
  /// The content of the file that saves the tokenizer; empty if it needs none.
  virtual std::string model_text() const { return {}; }
};

/// File name for saving a tokenizer of this kind: "tokenizer.model" or "tokenizer.json"; empty if it needs
/// none.
std::string_view tokenizer_file(std::string_view kind);
/// True if a tokenizer of this kind can be saved and loaded.
bool is_known_tokenizer(std::string_view kind);

/// Loads the tokenizer saved in `folder`. Throws Error(kInvalidInput) for an unknown kind, and for a file
/// that is a link out of the folder.
std::unique_ptr<Tokenizer> load_saved_tokenizer(std::string_view kind, const std::filesystem::path& folder);

/// One token per byte: vocabulary 256, no training, lossless. Documents are separated by an empty line.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// A sentencepiece model of any type. Documents are separated by its end-of-sentence token, or by an empty
/// line if it has none. encode_chat() finds control symbols as transformers does: only text before the first
/// one gets the model's dummy prefix. Throws Error(kInvalidInput) if the file is missing or not a model.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& model);

/// Byte-level BPE from a tokenizer.json, or a folder with one or with vocab.json and merges.txt. Lossless.
/// Texts of added tokens, such as "<|endoftext|>", become these tokens. Documents are separated by the
/// end-of-text token, followed by the begin-of-text token if there is one. Throws Error(kInvalidInput) if a
/// file is missing or has unsupported content.
std::unique_ptr<Tokenizer> load_bpe(const std::filesystem::path& path);

/// The argument of `--tokenizer`: "bytes", the path of a sentencepiece model or of a .json file of byte-level
/// BPE, or a folder with either (see tokenizer_folder.h).
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_model);

}  // namespace trireme

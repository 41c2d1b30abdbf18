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

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// "bytes" or "sentencepiece".
  virtual std::string_view kind() const = 0;
  virtual std::int64_t vocab_size() const = 0;
  /// Thread-safe, like decode().
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// Throws Error(kInvalidInput) for an id outside of [0, vocab_size()).
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// The separator of two documents in a stream of tokens.
  virtual std::vector<std::int32_t> document_separator() const = 0;
  /// The model file that was loaded; empty where there is none.
  virtual std::filesystem::path model_path() const { return {}; }
};

/// One token a byte: vocabulary 256, nothing to train, every text comes back as it was. Documents are
/// separated by an empty line.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// A sentencepiece model of any type. Documents are separated by its end-of-sentence token, or by an empty
/// line where it has none. Throws Error(kInvalidInput) when the file is missing or not a model.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& model);

/// "bytes", or the path of a sentencepiece model: what `--tokenizer` takes.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_model);

}  // namespace trireme

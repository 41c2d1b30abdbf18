#include "runtime/data/tokenizer.h"

#include <filesystem>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/data/tokenizer_folder.h"

namespace trireme {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view kind() const override { return kByteTokenizer; }
  std::int64_t vocab_size() const override { return 256; }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<unsigned char>(text[i]);
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text(ids.size(), '\0');
    for (std::size_t i = 0; i < ids.size(); ++i) {
      TRIREME_CHECK(ids[i] >= 0 && ids[i] < 256, "token {} is not a byte", ids[i]);
      text[i] = static_cast<char>(ids[i]);
    }
    return text;
  }

  std::vector<std::int32_t> document_separator() const override { return {'\n', '\n'}; }
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_model) {
  if (name_or_model == kByteTokenizer) return make_byte_tokenizer();
  std::error_code error;
  const std::filesystem::path path = name_or_model;
  TRIREME_CHECK(
      std::filesystem::exists(path, error),
      "there is no tokenizer {}: give \"{}\", a folder or .json file of byte-level BPE, or a sentencepiece "
      "model or a folder with its tokenizer.model",
      name_or_model, kByteTokenizer);
  if (std::filesystem::is_directory(path, error)) return load_tokenizer_folder(path);
  return path.extension() == ".json" ? load_bpe(path) : load_sentencepiece(path);
}

bool is_known_tokenizer(std::string_view kind) {
  return kind == kByteTokenizer || !tokenizer_file(kind).empty();
}

std::string_view tokenizer_file(std::string_view kind) {
  if (kind == kSentencePieceTokenizer) return "tokenizer.model";
  if (kind == kBpeTokenizer) return "tokenizer.json";
  return "";
}

std::unique_ptr<Tokenizer> load_saved_tokenizer(std::string_view kind, const std::filesystem::path& folder) {
  if (kind == kByteTokenizer) return make_byte_tokenizer();
  if (kind == kSentencePieceTokenizer || kind == kBpeTokenizer) {
    const std::filesystem::path file =
        file_of_folder({.folder = folder, .name = std::string(tokenizer_file(kind)), .what = "tokenizer"});
    return kind == kBpeTokenizer ? load_bpe(file) : load_sentencepiece(file);
  }
  throw Error(ErrorCode::kInvalidInput, "{} was made with a tokenizer \"{}\"; known are {}, {} and {}",
              folder.string(), kind, kByteTokenizer, kSentencePieceTokenizer, kBpeTokenizer);
}

}  // namespace trireme

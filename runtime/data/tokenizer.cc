#include "runtime/data/tokenizer.h"

#include "runtime/base/error.h"

namespace trireme {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view kind() const override { return "bytes"; }
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
  return name_or_model == "bytes" ? make_byte_tokenizer() : load_sentencepiece(name_or_model);
}

}  // namespace trireme

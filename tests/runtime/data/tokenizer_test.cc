#include "runtime/data/tokenizer.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/data/bpe_model.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

TEST(ByteTokenizer, EveryByteComesBack) {
  const auto tokenizer = load_tokenizer("bytes");
  EXPECT_EQ(tokenizer->kind(), "bytes");
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_TRUE(tokenizer->model_text().empty());
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  const auto ids = tokenizer->encode(text);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(ids[byte], byte);
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(tokenizer->decode(tokenizer->document_separator()), "\n\n");
}

TEST(ByteTokenizer, ATokenizerJsonHasTheSameIds) {
  const TemporaryFolder folder;
  testing::write_file(folder / "tokenizer.json", tokenizer_json_of_bytes());
  const auto bpe = load_tokenizer((folder / "tokenizer.json").string());
  const auto bytes = make_byte_tokenizer();
  EXPECT_EQ(bpe->vocab_size(), 256);
  std::string text = "Two  spaces,\n\n na\u00efve; ";
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  EXPECT_EQ(bpe->encode(text), bytes->encode(text));
  EXPECT_EQ(bpe->decode(bpe->encode(text)), text);
  EXPECT_EQ(bpe->document_separator(), bytes->document_separator());
}

TEST(ByteTokenizer, RefusesWhatIsNotAByte) {
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_THROW(tokenizer->decode(std::vector<std::int32_t>{65, 256}), Error);
  EXPECT_THROW(tokenizer->decode(std::vector<std::int32_t>{-1}), Error);
}

TEST(LoadTokenizer, NamesTheFileThatIsMissingOrNoModel) {
  const TemporaryFolder folder;
  const std::string missing = message_of([&] { load_tokenizer((folder / "my.model").string()); });
  EXPECT_NE(missing.find("my.model"), std::string::npos) << missing;
  EXPECT_NE(missing.find("there is no tokenizer"), std::string::npos) << missing;
  testing::write_file(folder / "my.model", "this is no model");
  const std::string foreign = message_of([&] { load_tokenizer((folder / "my.model").string()); });
  EXPECT_NE(foreign.find("my.model is not a sentencepiece model"), std::string::npos) << foreign;
  testing::write_file(folder / "my.model", "");
  const std::string empty = message_of([&] { load_tokenizer((folder / "my.model").string()); });
  EXPECT_NE(empty.find("empty"), std::string::npos) << empty;
}

}  // namespace
}  // namespace trireme

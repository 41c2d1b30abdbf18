#include "runtime/data/token_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/support/token_ids.h"

namespace trireme {
namespace {

using testing::message_of;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

void write_tokens(const std::filesystem::path& path, const std::vector<std::int32_t>& tokens) {
  TokenFileWriter writer(path, kTokens16);
  writer.append(tokens);
  writer.commit();
}

/// Writes a file with this header and `num_bytes` bytes of tokens.
void write_raw(const std::filesystem::path& path, std::int32_t magic, std::int32_t version,
               std::int32_t num_tokens, std::size_t num_bytes) {
  std::array<std::int32_t, 256> header{magic, version, num_tokens};
  std::string text(reinterpret_cast<const char*>(header.data()), sizeof header);
  write_file(path, text + std::string(num_bytes, '\1'));
}

std::string open_message(const std::filesystem::path& path) {
  return message_of([&] { TokenFile file(path); });
}

void expect_contains(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
}

TEST(TokenFile, LayoutIsTheCommonOne) {
  const TemporaryFolder folder;
  write_tokens(folder / "a.bin", {7, 65535, 256});
  const std::string bytes = read_file(folder / "a.bin");
  ASSERT_EQ(bytes.size(), 1024u + 6u);
  std::array<std::int32_t, 256> expected{20240520, 1, 3};
  EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), 1024), 0);
  EXPECT_EQ(bytes.substr(1024), std::string("\x07\x00\xff\xff\x00\x01", 6));
}

TEST(TokenFile, RoundTrip) {
  const TemporaryFolder folder;
  std::vector<std::int32_t> tokens(700'000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 31 % 50257);
  TokenFileWriter writer(folder / "a.bin", kTokens16);
  writer.append(std::span(tokens).first(3));
  writer.append(std::span(tokens).subspan(3));
  EXPECT_EQ(writer.num_tokens(), 700'000);
  EXPECT_FALSE(std::filesystem::exists(folder / "a.bin"));
  writer.commit();
  const TokenFile file(folder / "a.bin");
  EXPECT_EQ(testing::token_ids(file), tokens);
  EXPECT_EQ(file.max_token(), 50256);
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(TokenFile, TheTailMovesToAnotherFile) {
  const TemporaryFolder folder;
  TokenFileWriter train(folder / "train.bin", kTokens16), eval(folder / "eval.bin", kTokens16);
  std::vector<std::int32_t> tokens(1000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i);
  train.append(tokens);
  train.move_tail(900, eval);
  train.commit();
  eval.commit();
  const TokenFile first(folder / "train.bin"), second(folder / "eval.bin");
  tokens.resize(900);
  EXPECT_EQ(testing::token_ids(first), tokens);
  EXPECT_EQ(second.num_tokens(), 100);
  EXPECT_EQ(testing::token_ids(second).front(), 900);
}

// Vocabularies of more than 65,536 tokens, such as Llama 3's.
TEST(TokenFile, LargeVocabulariesHave32Bits) {
  EXPECT_EQ(&TokenLayout::of_vocab(65536), &kTokens16);
  EXPECT_EQ(&TokenLayout::of_vocab(65537), &kTokens32);
  const TemporaryFolder folder;
  TokenFileWriter train(folder / "train.bin", kTokens32), eval(folder / "eval.bin", kTokens32);
  train.append(std::vector<std::int32_t>{7, 128'255, 256, 65'536});
  train.move_tail(3, eval);
  train.commit();
  eval.commit();
  const std::string bytes = read_file(folder / "train.bin");
  ASSERT_EQ(bytes.size(), 1024u + 12u);
  std::array<std::int32_t, 256> expected{20240801, 7, 3};
  EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), 1024), 0);
  const TokenFile file(folder / "train.bin");
  EXPECT_EQ(testing::token_ids(file), (std::vector<std::int32_t>{7, 128'255, 256}));
  EXPECT_EQ(file.max_token(), 128'255);
  EXPECT_EQ(testing::token_ids(TokenFile(folder / "eval.bin")), (std::vector<std::int32_t>{65'536}));
  file.check_vocab(128'256);
  expect_contains(message_of([&] { file.check_vocab(128'255); }), {"token 128255", "position 1"});
  // Ids beyond the range of int32.
  write_raw(folder / "huge.bin", 20240801, 7, 1, 0);
  write_file(folder / "huge.bin", read_file(folder / "huge.bin") + std::string("\x00\x00\x00\x80", 4));
  expect_contains(message_of([&] { TokenFile(folder / "huge.bin").check_vocab(1000); }), {"2147483648"});
}

TEST(TokenFile, AnUncommittedWriterLeavesNothing) {
  const TemporaryFolder folder;
  {
    TokenFileWriter writer(folder / "a.bin", kTokens16);
    writer.append(std::vector<std::int32_t>{1, 2, 3});
  }
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(TokenFile, NoTokensAreNotCommitted) {
  const TemporaryFolder folder;
  TokenFileWriter writer(folder / "a.bin", kTokens16);
  EXPECT_THROW(writer.commit(), Error);
}

TEST(TokenFile, DamagedFilesSayWhatIsWrong) {
  const TemporaryFolder folder;
  const auto path = folder / "x.bin";
  expect_contains(open_message(path), {"x.bin", "No such file"});
  write_file(path, "");
  expect_contains(open_message(path), {"x.bin", "empty"});
  write_file(path, "ab");
  expect_contains(open_message(path), {"x.bin", "2 bytes", "1024"});
  write_file(path, "Once upon a time there was a text file that somebody took for tokens.");
  expect_contains(open_message(path), {"x.bin", "not a token file", "20240520"});
  write_raw(path, 20240520, 1, 10, 19);
  expect_contains(open_message(path), {"x.bin", "truncated", "10 tokens", "1044", "1043"});
  write_raw(path, 20240520, 1, 10, 21);
  expect_contains(open_message(path), {"x.bin", "damaged", "10 tokens", "1044", "1045"});
  write_raw(path, 20240520, 2, 10, 20);
  expect_contains(open_message(path), {"x.bin", "version 2", "version 1"});
  write_raw(path, 20240520, 1, 0, 0);
  expect_contains(open_message(path), {"x.bin", "no tokens"});
  write_raw(path, 20240520, 1, -5, 0);
  expect_contains(open_message(path), {"x.bin", "no tokens", "-5"});
  write_raw(path, 20240520, 1, 10, 20);
  write_file(path, read_file(path).substr(0, 500));
  expect_contains(open_message(path), {"x.bin", "truncated", "500 bytes", "1024"});
}

TEST(TokenFile, VocabCheckNamesTokenAndPosition) {
  const TemporaryFolder folder;
  std::vector<std::int32_t> tokens(5000, 3);
  tokens[4321] = 300;
  tokens[4322] = 301;
  write_tokens(folder / "a.bin", tokens);
  const TokenFile file(folder / "a.bin");
  EXPECT_NO_THROW(file.check_vocab(302));
  EXPECT_NO_THROW(file.check_vocab(65536));
  expect_contains(message_of([&] { file.check_vocab(300); }), {"a.bin", "token 300", "4321", "301"});
  expect_contains(message_of([&] { file.check_vocab(301); }), {"token 301", "4322"});
}

}  // namespace
}  // namespace trireme

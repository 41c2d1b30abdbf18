#include "runtime/data/prepare_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/data/bpe_model.h"
#include "runtime/data/sentencepiece_tokenizer.h"
#include "runtime/data/token_file.h"
#include "runtime/data/tokenizer.h"
#include "tests/runtime/data/sample_text.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/token_ids.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::read_file;
using testing::sample_text;
using testing::TemporaryFolder;
using testing::write_file;

/// The tokens of a shard, decoded.
std::string text_of(const fs::path& path, const Tokenizer& tokenizer) {
  const TokenFile file(path);
  return tokenizer.decode(testing::token_ids(file));
}

TEST(PrepareText, BytesAreJoinedAndSplit) {
  const TemporaryFolder folder;
  write_file(folder / "in/a.txt", "0123456789");
  write_file(folder / "in/b.txt", "abcdefgh");
  write_file(folder / "in/c", std::string("\0", 1));
  const auto summary = prepare_text({.inputs = {folder / "in"}, .output = folder / "out/deep"});
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_EQ(text_of(folder / "out/deep/train.bin", *tokenizer), "0123456789\n\nabcdef");
  EXPECT_EQ(text_of(folder / "out/deep/eval.bin", *tokenizer), "gh");
  EXPECT_TRUE(summary.lossless);
  const DatasetInfo info = read_dataset_info(folder / "out/deep");
  EXPECT_EQ(info.tokenizer, "bytes");
  EXPECT_EQ(info.vocab_size, 256);
  EXPECT_EQ(info.train_tokens, 18);
  EXPECT_EQ(info.eval_tokens, 2);
  EXPECT_EQ(info.source_files, 2);
  EXPECT_EQ(info.source_bytes, 18);
  EXPECT_EQ(info.skipped_binary_files, 1);
}

TEST(PrepareText, MarksAreDroppedAndLineEndsStay) {
  const TemporaryFolder folder;
  write_file(folder / "in/a.txt",
             "\xef\xbb\xbf"
             "a\r\nb\r");
  write_file(folder / "in/b.txt",
             "\xef\xbb\xbf"
             "c\xef\xbb\xbf\n");
  const auto summary =
      prepare_text({.inputs = {folder / "in"}, .output = folder / "out", .eval_fraction = 0.0});
  EXPECT_EQ(text_of(folder / "out/train.bin", *make_byte_tokenizer()), "a\r\nb\r\n\nc\xef\xbb\xbf\n");
  EXPECT_EQ(summary.notes.marked.count, 2);
  EXPECT_EQ(summary.info.source_bytes, 10);
}

// The split of published results for a file of 1,115,394 characters: 1,003,854 for training.
TEST(PrepareText, NineTenthsAreRoundedDown) {
  const TemporaryFolder folder;
  write_file(folder / "in.txt", std::string(1'115'394, 'x'));
  const auto summary = prepare_text({.inputs = {folder / "in.txt"}, .output = folder / "out"});
  EXPECT_EQ(summary.info.train_tokens, 1'003'854);
  EXPECT_EQ(summary.info.eval_tokens, 111'540);
}

TEST(PrepareText, AnotherRunReplacesTheResults) {
  const TemporaryFolder folder;
  write_file(folder / "in.txt", "some text to be replaced");
  prepare_text({.inputs = {folder / "in.txt"}, .output = folder / "out"});
  write_file(folder / "in.txt", "other");
  prepare_text({.inputs = {folder / "in.txt"}, .output = folder / "out", .eval_fraction = 0.0});
  EXPECT_EQ(text_of(folder / "out/train.bin", *make_byte_tokenizer()), "other");
  EXPECT_FALSE(fs::exists(folder / "out/eval.bin")) << "an earlier run's evaluation tokens are still there";
  EXPECT_EQ(read_dataset_info(folder / "out").eval_tokens, 0);
}

TEST(PrepareText, InputsAreNotOverwritten) {
  const TemporaryFolder folder;
  write_file(folder / "train.bin", "a text with an unlucky name");
  EXPECT_NE(message_of([&] {
              prepare_text({.inputs = {folder / "train.bin"}, .output = folder.path()});
            }).find("would be overwritten"),
            std::string::npos);
  EXPECT_EQ(read_file(folder / "train.bin"), "a text with an unlucky name");
}

TEST(PrepareText, SentencepieceModelGoesAlong) {
  const TemporaryFolder folder;
  const std::string a = sample_text(80), b = "one more\n";
  write_file(folder / "in/a.txt", a);
  write_file(folder / "in/b.txt", b);
  const std::array<fs::path, 1> training = {folder / "in/a.txt"};
  train_sentencepiece(training, folder / "my.model", {.vocab_size = 350});
  const auto summary = prepare_text({.inputs = {folder / "in"},
                                     .output = folder / "out",
                                     .tokenizer = (folder / "my.model").string(),
                                     .eval_fraction = 0.0});
  EXPECT_TRUE(summary.lossless);
  EXPECT_EQ(summary.info.vocab_size, 350);
  EXPECT_EQ(read_file(folder / "out/tokenizer.model"), read_file(folder / "my.model"));
  fs::remove(folder / "my.model");
  const auto tokenizer =
      load_sentencepiece(folder / "out" / read_dataset_info(folder / "out").tokenizer_model);
  EXPECT_EQ(text_of(folder / "out/train.bin", *tokenizer), a + b);  // the separator decodes to nothing
  const TokenFile file(folder / "out/train.bin");
  const std::int32_t separator = tokenizer->document_separator().at(0);
  EXPECT_EQ(std::ranges::count(testing::token_ids(file), separator), 1);
}

// A vocabulary of 70,000 tokens, most of them unused.
TEST(PrepareText, ByteLevelBpeKeepsItsFileAndWidth) {
  const TemporaryFolder folder;
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[written_token(std::string(1, static_cast<char>(byte)))] = byte;
  vocab["he"] = 69'999;
  const nlohmann::json json = {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                               {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"h e"}}}}};
  write_file(folder / "bpe" / "tokenizer.json", json.dump());
  write_file(folder / "in" / "a.txt", "he said\nhe knew\n");
  const auto summary = prepare_text(
      {.inputs = {folder / "in"}, .output = folder / "out", .tokenizer = (folder / "bpe").string()});
  EXPECT_TRUE(summary.lossless);
  const DatasetInfo info = read_dataset_info(folder / "out");
  EXPECT_EQ(info.tokenizer, "bpe");
  EXPECT_EQ(info.tokenizer_model, "tokenizer.json");
  EXPECT_EQ(info.vocab_size, 70'000);
  const TokenFile file(folder / "out/train.bin");
  EXPECT_EQ(&file.layout(), &kTokens32);
  EXPECT_EQ(testing::token_ids(file).front(), 69'999);
  const auto saved = load_saved_tokenizer("bpe", folder / "out");
  EXPECT_EQ(text_of(folder / "out/train.bin", *saved) + text_of(folder / "out/eval.bin", *saved),
            "he said\nhe knew\n");
}

TEST(PrepareText, ATextOnWhichPatternsTakeTooLongIsNamed) {
  const TemporaryFolder folder;
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[written_token(std::string(1, static_cast<char>(byte)))] = byte;
  const nlohmann::json split = {
      {"type", "Split"}, {"pattern", {{"Regex", "[^b]*b|."}}}, {"behavior", "Isolated"}, {"invert", false}};
  const nlohmann::json json = {
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {split, {{"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", false}}}}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}};
  write_file(folder / "bpe" / "tokenizer.json", json.dump());
  std::string text(1 << 20, 'b');
  text[(1 << 20) - 1] = '\n';  // where the second piece begins
  write_file(folder / "in.txt", text + "x " + std::string(50'000, 'a'));
  const std::string message = message_of([&] {
    prepare_text(
        {.inputs = {folder / "in.txt"}, .output = folder / "out", .tokenizer = (folder / "bpe").string()});
  });
  EXPECT_THAT(message,
              ::testing::HasSubstr((folder / "in.txt").string() + ": the text from line 2 (byte 1048576)"));
  EXPECT_THAT(message, ::testing::HasSubstr("tokenizer " + (folder / "bpe/tokenizer.json").string() +
                                            ": its patterns take too long at byte "));
}

TEST(PrepareText, LongTextsAreEncodedInPiecesWithoutLoss) {
  const TemporaryFolder folder;
  std::string text;
  while (text.size() < 1'100'000)
    text += "no line end \xe2\x82\xac\xf0\x9f\x9a\xa2 ";  // characters of 3 and 4 bytes
  write_file(folder / "in/a.txt", text);
  const std::string lines = sample_text(32'000);
  ASSERT_GT(lines.size(), std::size_t{1'100'000});
  write_file(folder / "in/b.txt", lines);
  write_file(folder / "training.txt", sample_text(100));
  const std::array<fs::path, 1> training = {folder / "training.txt"};
  train_sentencepiece(training, folder / "my.model", {.vocab_size = 350});
  std::vector<PrepareTextProgress> reports;
  const auto summary =
      prepare_text({.inputs = {folder / "in"},
                    .output = folder / "out",
                    .tokenizer = (folder / "my.model").string(),
                    .eval_fraction = 0.0},
                   [&](const PrepareTextProgress& progress) { reports.push_back(progress); });
  EXPECT_EQ(text_of(folder / "out/train.bin", *load_sentencepiece(folder / "out/tokenizer.model")),
            text + lines);
  ASSERT_GE(reports.size(), 3u);
  for (std::size_t i = 1; i < reports.size(); ++i)
    EXPECT_GT(reports[i].bytes_done, reports[i - 1].bytes_done);
  EXPECT_EQ(reports.back().bytes_done, static_cast<std::int64_t>(text.size() + lines.size()));
  EXPECT_EQ(reports.back().bytes_total, reports.back().bytes_done);
  EXPECT_EQ(reports.back().num_tokens, summary.info.train_tokens);
}

TEST(PrepareText, FailureLeavesNothingBehind) {
  const TemporaryFolder folder;
  write_file(folder / "in.txt", std::string(3'000'000, 'x'));
  const auto stop = [](const PrepareTextProgress&) { throw Error(ErrorCode::kRuntime, "stop"); };
  EXPECT_THROW(prepare_text({.inputs = {folder / "in.txt"}, .output = folder / "out"}, stop), Error);
  EXPECT_FALSE(fs::exists(folder / "out"));

  write_file(folder / "small.txt", "an earlier result");
  prepare_text({.inputs = {folder / "small.txt"}, .output = folder / "out"});
  const std::string before = read_file(folder / "out/train.bin");
  EXPECT_THROW(prepare_text({.inputs = {folder / "in.txt"}, .output = folder / "out"}, stop), Error);
  EXPECT_EQ(read_file(folder / "out/train.bin"), before);
  EXPECT_NO_THROW(read_dataset_info(folder / "out"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "out"), fs::directory_iterator()), 3);
}

TEST(PrepareText, BadInputSaysWhatIsWrong) {
  const TemporaryFolder folder;
  write_file(folder / "in.txt", "text");
  write_file(folder / "binary", std::string("\0", 1));
  const auto message = [](const PrepareTextOptions& options) {
    return message_of([&] { prepare_text(options); });
  };
  const auto out = folder / "out";
  EXPECT_NE(message({.inputs = {folder / "nothing"}, .output = out}).find("nothing does not exist"),
            std::string::npos);
  const std::string binary = message({.inputs = {folder / "binary"}, .output = out});
  EXPECT_NE(binary.find("binary is no text"), std::string::npos) << binary;
  write_file(folder / "binaries/one", std::string("\0", 1));
  const std::string binaries = message({.inputs = {folder / "binaries"}, .output = out});
  EXPECT_NE(binaries.find("no text was found"), std::string::npos) << binaries;
  EXPECT_NE(binaries.find("1 binary"), std::string::npos) << binaries;
  const std::string blocked = message({.inputs = {folder / "in.txt"}, .output = folder / "in.txt/out"});
  EXPECT_NE(blocked.find("in.txt/out"), std::string::npos) << blocked;
  EXPECT_NE(message({.inputs = {folder / "in.txt"}, .output = folder / "in.txt"}).find("not a folder"),
            std::string::npos);
  EXPECT_NE(message({.inputs = {folder / "in.txt"}, .output = out, .eval_fraction = 1.0}).find("fraction"),
            std::string::npos);
  EXPECT_NE(message({.inputs = {}, .output = out}).find("no input"), std::string::npos);
  EXPECT_FALSE(fs::exists(out));
}

TEST(DatasetInfo, DamageIsNamed) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& text) {
    write_file(folder / "dataset.json", text);
    return message_of([&] { read_dataset_info(folder.path()); });
  };
  EXPECT_NE(message("{").find("dataset.json"), std::string::npos);
  EXPECT_NE(message(R"({"format": "other"})").find("other"), std::string::npos);
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_NE(
      message("{\"format\": " + deep + "}").find("dataset.json is damaged: its JSON is nested 200001 levels"),
      std::string::npos);
  EXPECT_NE(message(R"({"format": "trireme-tokens", "version": 2})").find("version 2"), std::string::npos);
  const std::string info =
      R"({"format":"trireme-tokens","version":1,"tokenizer":"bytes","tokenizer_model":"","vocab_size":@,)"
      R"("train_tokens":1,"eval_tokens":0,"sources":{"files":1,"bytes":1,"skipped_binary_files":0}})";
  for (const char* number : {"2.5e20", "9223372036854775808", "1.5", "true", "\"256\"", "null"}) {
    const std::string text = message(std::string(info).replace(info.find('@'), 1, number));
    EXPECT_NE(text.find("dataset.json is damaged: its \"vocab_size\" is "), std::string::npos) << text;
    EXPECT_NE(text.find("not an integer of 8 bytes"), std::string::npos) << text;
  }
  EXPECT_EQ(message(std::string(info).replace(info.find('@'), 1, "256")), "");
  EXPECT_NE(message(std::string(info).replace(info.find('@'), 1, "-256")).find("its vocab_size is -256"),
            std::string::npos);
  EXPECT_NE(message(R"({"format": "trireme-tokens", "version": 1})").find("sources"), std::string::npos);
}

}  // namespace
}  // namespace trireme

#include "runtime/data/token_dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

/// Writes tokens first, first + 1, ..., so that a window reveals its position.
void write_counting(const std::filesystem::path& path, std::uint16_t first, std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  TokenFileWriter writer(path, kTokens16);
  writer.append(tokens);
  writer.commit();
}

std::vector<std::int32_t> inputs_of(const HostBatch& batch) {
  std::vector<std::int32_t> inputs(batch.inputs.size() / sizeof(std::int32_t));
  std::memcpy(inputs.data(), batch.inputs.data(), batch.inputs.size());
  return inputs;
}

/// The first input of each sample, after checking that inputs are consecutive and targets are one ahead.
std::vector<std::int32_t> starts_of(const HostBatch& batch, std::int64_t length) {
  const auto inputs = inputs_of(batch);
  EXPECT_EQ(inputs.size(), batch.targets.size());
  std::vector<std::int32_t> starts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto column = static_cast<std::int32_t>(i % length);
    if (column == 0) starts.push_back(inputs[i]);
    EXPECT_EQ(inputs[i], starts.back() + column);
    EXPECT_EQ(batch.targets[i], inputs[i] + 1);
  }
  return starts;
}

TEST(TokenDataset, SequentialWindowsCoverTheFileInOrder) {
  const TemporaryFolder folder;
  write_counting(folder / "a.bin", 100, 33);
  const TokenDataset data({.path = folder / "a.bin", .sequence_length = 8, .seed = 1});
  ASSERT_EQ(data.num_samples(), 4);  // the last target is token 33
  EXPECT_EQ(data.targets_per_sample(), 8);
  const HostBatch batch = data.read_sequential(0, 4);
  EXPECT_EQ(batch.input_shape, (Shape{4, 8}));
  EXPECT_EQ(batch.target_shape, (Shape{4, 8}));
  EXPECT_EQ(batch.input_dtype, DType::kInt32);
  EXPECT_EQ(starts_of(batch, 8), (std::vector<std::int32_t>{100, 108, 116, 124}));
  EXPECT_THROW(data.read_sequential(3, 2), Error);
  EXPECT_THROW(data.read_sequential(-1, 1), Error);
}

TEST(TokenDataset, OneTokenLessIsOneWindowLess) {
  const TemporaryFolder folder;
  write_counting(folder / "a.bin", 0, 32);
  EXPECT_EQ(TokenDataset({.path = folder / "a.bin", .sequence_length = 8}).num_samples(), 3);
}

TEST(TokenDataset, AnEpochCutsEachWindowOnceFromOneOffset) {
  const TemporaryFolder folder;
  write_counting(folder / "a.bin", 0, 1003);
  const std::int64_t length = 8, windows = 125;
  const TokenDataset data({.path = folder / "a.bin", .sequence_length = length, .seed = 42});
  ASSERT_EQ(data.num_samples(), windows);
  std::vector<std::int32_t> offsets;
  for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
    auto starts = starts_of(data.read_train(epoch * windows, windows), length);
    EXPECT_FALSE(std::is_sorted(starts.begin(), starts.end()));
    std::sort(starts.begin(), starts.end());
    const std::int32_t offset = starts.front();
    EXPECT_LT(offset, length);
    offsets.push_back(offset);
    for (std::int64_t k = 0; k < windows; ++k)
      EXPECT_EQ(starts[k], std::min<std::int64_t>(offset + k * length, 1003 - 1 - length));
  }
  std::sort(offsets.begin(), offsets.end());
  EXPECT_GT(std::unique(offsets.begin(), offsets.end()) - offsets.begin(), 4);
}

TEST(TokenDataset, TheOrderIsTheSameHoweverItIsRead) {
  const TemporaryFolder folder;
  write_counting(folder / "a.bin", 0, 500);
  const TokenDataset data({.path = folder / "a.bin", .sequence_length = 4, .seed = 9});
  const auto all = starts_of(data.read_train(0, 400), 4);  // over three epochs
  for (const std::int64_t batch : {1, 3, 7, 200}) {
    std::vector<std::int32_t> pieces;
    for (std::int64_t first = 0; first < 400; first += batch) {
      const auto starts = starts_of(data.read_train(first, std::min(batch, 400 - first)), 4);
      pieces.insert(pieces.end(), starts.begin(), starts.end());
    }
    EXPECT_EQ(pieces, all) << "batch " << batch;
  }
  const TokenDataset same({.path = folder / "a.bin", .sequence_length = 4, .seed = 9});
  EXPECT_EQ(starts_of(same.read_train(0, 400), 4), all);
  const TokenDataset other({.path = folder / "a.bin", .sequence_length = 4, .seed = 10});
  EXPECT_NE(starts_of(other.read_train(0, 400), 4), all);
}

TEST(TokenDataset, AFileOfOneWindow) {
  const TemporaryFolder folder;
  write_counting(folder / "a.bin", 50, 9);
  const TokenDataset data({.path = folder / "a.bin", .sequence_length = 8, .seed = 1});
  EXPECT_EQ(starts_of(data.read_train(0, 5), 8), (std::vector<std::int32_t>(5, 50)));
}

TEST(TokenDataset, WindowsStayWithinTheirShard) {
  const TemporaryFolder folder;
  write_counting(folder / "b.bin", 2000, 43);  // 5 windows of 8
  write_counting(folder / "a.bin", 1000, 26);  // 3 windows
  write_counting(folder / "c.bin", 3000, 5);   // none
  write_counting(folder / "d.bin", 4000, 17);  // 2 windows
  testing::write_file(folder / "notes.txt", "not a shard");
  testing::write_file(folder / ".d.bin.tmp-1", "half a shard");
  const TokenDataset data({.path = folder.path(), .sequence_length = 8, .seed = 3});
  EXPECT_EQ(data.num_shards(), 4u);
  EXPECT_EQ(data.num_tokens(), 43 + 26 + 5 + 17);
  EXPECT_EQ(data.max_token(), 4016);
  ASSERT_EQ(data.num_samples(), 10);
  EXPECT_EQ(starts_of(data.read_sequential(0, 10), 8),
            (std::vector<std::int32_t>{1000, 1008, 1016, 2000, 2008, 2016, 2024, 2032, 4000, 4008}));
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    auto starts = starts_of(data.read_train(epoch * 10, 10), 8);  // also checks that tokens are consecutive
    std::sort(starts.begin(), starts.end());
    EXPECT_LT(starts[2], 2000);
    EXPECT_GE(starts[3], 2000);
    EXPECT_LT(starts[7], 3000);
    EXPECT_GE(starts[8], 4000);
  }
}

TEST(TokenDataset, BadPathsAndSizesSayWhatIsWrong) {
  const TemporaryFolder folder;
  const auto message = [](const std::filesystem::path& path, std::int64_t length) {
    return message_of([&] { TokenDataset data({.path = path, .sequence_length = length}); });
  };
  EXPECT_NE(message(folder / "none", 8).find("does not exist"), std::string::npos);
  EXPECT_NE(message(folder.path(), 8).find("no token shards"), std::string::npos);
  write_counting(folder / "train.bin", 0, 8);
  const std::string few = message(folder / "train.bin", 8);
  EXPECT_NE(few.find("train.bin has 8 tokens"), std::string::npos) << few;
  EXPECT_NE(few.find("needs 9"), std::string::npos) << few;
  EXPECT_NE(message(folder / "train.bin", 0).find("sequence length"), std::string::npos);
  write_counting(folder / "eval.bin", 0, 8);
  const std::string both = message(folder.path(), 4);
  EXPECT_NE(both.find("both train.bin and eval.bin"), std::string::npos) << both;
}

TEST(TokenDataset, VocabCheckLooksAtEveryShard) {
  const TemporaryFolder folder;
  write_counting(folder / "a.bin", 0, 20);
  write_counting(folder / "b.bin", 90, 20);
  const TokenDataset data({.path = folder.path(), .sequence_length = 4});
  EXPECT_NO_THROW(data.check_vocab(110));
  const std::string message = message_of([&] { data.check_vocab(100); });
  EXPECT_NE(message.find("b.bin"), std::string::npos) << message;
}

// A shard changes during a run.

void overwrite_token(const std::filesystem::path& path, std::int64_t position, std::uint16_t token) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(kTokenFileHeaderBytes + position * 2);
  file.write(reinterpret_cast<const char*>(&token), sizeof token);
}

TEST(TokenDataset, AnIdBeyondTheVocabularyThatAppearsLaterIsNamedWithFileAndPosition) {
  const TemporaryFolder folder;
  write_counting(folder / "a.bin", 0, 33);
  const TokenDataset data({.path = folder / "a.bin", .sequence_length = 8, .vocab_size = 100});
  EXPECT_NO_THROW(data.read_sequential(0, 4));
  // As a failing disk does: the file's status is unchanged.
  const auto time = std::filesystem::last_write_time(folder / "a.bin");
  for (const std::int64_t position :
       {24, 13, 8}) {  // input and target in the middle, then a target that is first in its sample
    overwrite_token(folder / "a.bin", position, static_cast<std::uint16_t>(100 + position));
    std::filesystem::last_write_time(folder / "a.bin", time);
    const std::string message = message_of([&] { data.read_sequential(0, 4); });
    EXPECT_NE(message.find("a.bin: token " + std::to_string(100 + position) + " at position " +
                           std::to_string(position) + " is not below the vocabulary size 100"),
              std::string::npos)
        << message;
  }
  EXPECT_THROW(data.read_train(0, 4), Error);
}

TEST(TokenDataset, AShardThatIsReplacedWrittenShortenedOrRemovedIsNamed) {
  const TemporaryFolder folder;
  const auto change = [&](const char* words, const auto& action) {
    write_counting(folder / "a.bin", 0, 33);
    const TokenDataset data({.path = folder.path(), .sequence_length = 8, .vocab_size = 100});
    EXPECT_NO_THROW(data.read_train(0, 4));
    action();
    for (const std::string& message :
         {message_of([&] { data.read_train(4, 2); }), message_of([&] { data.read_sequential(0, 1); })}) {
      EXPECT_NE(message.find("a.bin " + std::string(words)), std::string::npos) << message;
    }
  };
  change("was replaced by another file", [&] { write_counting(folder / "a.bin", 1, 33); });
  change("was written to", [&] {
    using namespace std::chrono_literals;
    overwrite_token(folder / "a.bin", 5, 6);
    std::filesystem::last_write_time(folder / "a.bin", std::filesystem::file_time_type::clock::now() + 2s);
  });
  change("has 1040 bytes now, 1090 before", [&] { std::filesystem::resize_file(folder / "a.bin", 1040); });
  change("was removed", [&] { std::filesystem::remove(folder / "a.bin"); });
}

}  // namespace
}  // namespace trireme

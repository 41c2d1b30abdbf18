#include "launcher/observe/tensorboard_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <optional>

#include "runtime/base/error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

/// The events of the valid records, up to the first truncated or damaged one.
std::vector<std::string> events_of(std::string_view bytes) {
  constexpr std::uint32_t kDelta = 0xa282ead8;
  const auto masked = [](std::string_view text) { return std::rotr(crc32c(text), 15) + kDelta; };
  const auto sum_at = [&](std::size_t at) {
    std::uint32_t sum = 0;
    std::memcpy(&sum, bytes.data() + at, sizeof sum);
    return sum;
  };
  std::vector<std::string> events;
  while (bytes.size() >= 12) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    if (sum_at(8) != masked(bytes.substr(0, 8)) || bytes.size() < 16 + length) break;
    if (sum_at(12 + length) != masked(bytes.substr(12, length))) break;
    events.emplace_back(bytes.substr(12, length));
    bytes.remove_prefix(16 + length);
  }
  return events;
}

TEST(TensorBoardFile, ChecksumsOfTheStandard) {  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

TEST(TensorBoardFile, AnEventIsWhatTheFormatSays) {
  const testing::TemporaryFolder folder;
  const TensorBoardFile empty(folder.path(), /*now_s=*/1, /*first_step=*/300);
  const std::vector<std::string> events = events_of(testing::read_file(empty.path()));
  ASSERT_EQ(events.size(), 2u);
  const std::string time("\x09\0\0\0\0\0\0\xf0\x3f", 9);                          // field 1: the double 1
  EXPECT_EQ(events[0], time + "\x1a\x0d" + "brain.Event:2");                      // field 3
  EXPECT_EQ(events[1], time + "\x10\xac\x02" + std::string("\x3a\x02\x08\x01"));  // fields 2 and 7
}

TEST(TensorBoardFile, AFileThatIsCutOffKeepsItsWholeRecords) {
  const testing::TemporaryFolder folder;
  TensorBoardFile file(folder.path(), 1, 1);
  file.write_step({.step = 1, .loss = 2.5}, "tokens", 2);
  file.write_eval(1, {.loss = 3.5, .top1 = 0.5}, 3);
  const std::string bytes = testing::read_file(file.path());
  ASSERT_EQ(events_of(bytes).size(), 4u);
  EXPECT_NE(events_of(bytes)[2].find("train/loss"), std::string::npos);
  EXPECT_NE(events_of(bytes)[3].find("eval/top1"), std::string::npos);
  for (std::size_t lost = 1; lost < 40; ++lost) {
    EXPECT_EQ(events_of(std::string_view(bytes).substr(0, bytes.size() - lost)).size(), 3u) << lost;
  }
}

TEST(TensorBoardFile, AHistogramOnceInAHundredStepsAndOfTheRest) {
  const testing::TemporaryFolder folder;
  TensorBoardFile file(folder.path(), 1, 1);
  file.write_hyperparameters({{"optimizer.lr", 0.5}, {"model.name", std::string("gpt")}}, 1);
  for (std::int64_t step = 1; step <= 150; ++step)
    file.write_step({.step = step, .step_ms = 20}, "tokens", 2);
  file.write_end(SessionEnd::kSuccess, 3);
  const std::string bytes = testing::read_file(file.path());
  const std::vector<std::string> events = events_of(bytes);
  ASSERT_EQ(events.size(), 2u + 1 + 150 + 1);
  EXPECT_NE(events[2].find("_hparams_/session_start_info"), std::string::npos);
  for (std::size_t i = 3; i < events.size(); ++i) {
    const bool has_histogram = events[i].find("time/step_ms_histogram") != std::string::npos;
    EXPECT_EQ(has_histogram, i == 2 + 100 || i + 1 == events.size()) << i;
  }
  EXPECT_NE(events.back().find("_hparams_/session_end_info"), std::string::npos);
}

TEST(TensorBoardFile, AFolderThatCannotBeMadeIsNamed) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "tensorboard", "a file");
  EXPECT_THROW(TensorBoardFile(folder / "tensorboard", 1, 1), Error);
}

}  // namespace
}  // namespace trireme

#include "launcher/config/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace trireme {
namespace {

template <class T>
void expect_a_word_a_value() {
  std::set<std::string> words;
  for (const Word<T>& entry : kWords<T>) {
    const std::string word(entry.word);
    EXPECT_TRUE(words.insert(word).second) << word;
    EXPECT_EQ(from_word<T>(word), entry.value) << word;
    EXPECT_EQ(to_word(entry.value), word);
  }
  T value;
  for (const char* other : {"", "no such word", "FP32"}) EXPECT_FALSE(read_word(other, value)) << other;
}

TEST(Words, StandForOneValueEach) {
  expect_a_word_a_value<DataKind>();
  expect_a_word_a_value<ViewOptions::Crop>();
  expect_a_word_a_value<ImageDataset::OnBadImage>();
  expect_a_word_a_value<OptimizerConfig::Kind>();
  expect_a_word_a_value<LrSchedule::Kind>();
  expect_a_word_a_value<PrecisionMode>();
  expect_a_word_a_value<std::optional<DType>>();
  expect_a_word_a_value<LossScaleConfig::Kind>();
  expect_a_word_a_value<Offload>();
  expect_a_word_a_value<PipelineCut::Kind>();
  expect_a_word_a_value<Reduction>();
  expect_a_word_a_value<std::optional<DeviceType>>();
  expect_a_word_a_value<Resume::Kind>();
  expect_a_word_a_value<GpuSensorChoice>();
  expect_a_word_a_value<OnSpike>();
}

TEST(Words, OfATimeoutAreSecondsOrAuto) {
  for (const char* word : {"auto", "0", "1800", "0.5"})
    EXPECT_EQ(to_word(from_word<TimeoutChoice>(word)), word);
  EXPECT_TRUE(from_word<TimeoutChoice>("auto").learned);
  EXPECT_EQ(from_word<TimeoutChoice>("auto").seconds, TimeoutChoice{}.seconds);
  EXPECT_EQ(from_word<TimeoutChoice>("4").seconds, 4.0);
  TimeoutChoice timeout;
  for (const char* bad : {"", "-1", "nan", "inf", "soon", "1 s"})
    EXPECT_FALSE(read_word(bad, timeout)) << bad;
}

TEST(Words, StepsThatAreTraced) {
  for (const char* word : {"0", "7", "3-9", "3-9/2"}) EXPECT_EQ(to_word(from_word<TraceSteps>(word)), word);
  TraceSteps steps;
  for (const char* bad :
       {"", "-1", "3/2", "9-3", "0-3", "3-9/0", "3-", "3-9/", "a", "3-9/2/2", "4294967296"}) {
    EXPECT_FALSE(read_word(bad, steps)) << bad;
  }
  ASSERT_TRUE(read_word("3-9/4", steps));
  for (std::int64_t step = 1; step < 12; ++step) EXPECT_EQ(steps.has(step), step == 3 || step == 7) << step;
  EXPECT_FALSE(steps.is_one());
  EXPECT_TRUE(from_word<TraceSteps>("7").is_one());
  EXPECT_FALSE(from_word<TraceSteps>("0").has(0));
}

TEST(Words, OfACutListFirstBlocks) {
  const PipelineCut cut = from_word<PipelineCut>("3, 6 ,9");
  EXPECT_EQ(cut.kind, PipelineCut::Kind::kListed);
  EXPECT_EQ(cut.firsts, (std::vector<std::int64_t>{3, 6, 9}));
  EXPECT_EQ(to_word(cut), "3, 6, 9");
  EXPECT_EQ(from_word<PipelineCut>("blocks").kind, PipelineCut::Kind::kBlocks);
  PipelineCut read;
  for (const char* text : {"", "3,", "3 6", "block", "3;6", ",3", " "})
    EXPECT_FALSE(read_word(text, read)) << text;
}

TEST(Words, OfALossScaleMayBeANumber) {
  EXPECT_EQ(from_word<LossScaleChoice>("1024").scale, 1024.0);
  EXPECT_EQ(to_word(from_word<LossScaleChoice>("0.5")), "0.5");
  EXPECT_EQ(from_word<LossScaleChoice>("off").kind, LossScaleConfig::Kind::kOff);
  LossScaleChoice read;
  for (const char* text : {"0", "-1", "nan", "1e39", "1e-50", "12x", "static"})
    EXPECT_FALSE(read_word(text, read)) << text;
}

TEST(Words, OfACountMayBeAuto) {
  EXPECT_EQ(from_word<std::optional<int>>("auto"), std::nullopt);
  EXPECT_EQ(from_word<std::optional<int>>("256"), 256);
  EXPECT_EQ(to_word(std::optional(0)), "0");
  std::optional<int> read;
  for (const char* text : {"257", "-1", "1.5", "", "all"}) EXPECT_FALSE(read_word(text, read)) << text;
}

}  // namespace
}  // namespace trireme

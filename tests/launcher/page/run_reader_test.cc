#include "launcher/page/run_reader.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

std::string line(int step, double loss) {
  return "{\"step\":" + std::to_string(step) + ",\"loss\":" + std::to_string(loss) + "}\n";
}

class RunReaderTest : public ::testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(metrics_, std::ios::app) << text; }
  void replace(const std::string& text) { std::ofstream(metrics_) << text; }
  std::size_t num_points() const {
    const auto* loss = reader_.curves().find("loss");
    return loss == nullptr ? 0 : loss->curve.extremes().size();
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path metrics_ = folder_ / "metrics.jsonl";
  RunReader reader_{folder_.path()};
};

TEST_F(RunReaderTest, ReadsWhatIsAddedEachTimeOnce) {
  EXPECT_TRUE(reader_.poll().lines.empty());  // no file yet
  append(line(1, 4) + line(2, 3));
  EXPECT_EQ(reader_.poll().lines.size(), 2U);
  EXPECT_TRUE(reader_.poll().lines.empty());
  append(line(3, 2));
  const auto news = reader_.poll();
  ASSERT_EQ(news.lines.size(), 1U);
  EXPECT_FALSE(news.anew);
  EXPECT_EQ(news.lines[0].step, 3);
  EXPECT_EQ(num_points(), 3U);
}

TEST_F(RunReaderTest, AFileThatNoRunHasWrittenIsNotReadOn) {
  append(line(1, 4));
  std::filesystem::resize_file(metrics_, std::uintmax_t{1} << 40);  // sparse: it takes no space
  EXPECT_EQ(reader_.poll().lines.size(), 1U);
  EXPECT_FALSE(reader_.has_more());
  EXPECT_EQ(reader_.num_damaged_lines(), 1U);
  std::filesystem::remove(metrics_);
  EXPECT_TRUE(reader_.poll().anew);
  append(line(1, 4) + line(2, 3));
  EXPECT_EQ(reader_.poll().lines.size(), 2U);
}

TEST_F(RunReaderTest, ATornLastLineWaitsForItsEnd) {
  append(line(1, 4) + R"({"step":2,"lo)");
  EXPECT_EQ(reader_.poll().lines.size(), 1U);
  EXPECT_TRUE(reader_.poll().lines.empty());
  append("ss\":1}\n");
  const auto news = reader_.poll();
  ASSERT_EQ(news.lines.size(), 1U);
  EXPECT_EQ(*news.lines[0].find("loss"), 1);
  EXPECT_EQ(reader_.num_damaged_lines(), 0U);
}

TEST_F(RunReaderTest, DamagedLinesAreLeftOutAndCounted) {
  EXPECT_EQ(reader_.first_damaged_line(), 0U);
  append(line(1, 4) + "{\"step\":2,\"lo\nnonsense\n" + line(3, 2));
  EXPECT_EQ(reader_.poll().lines.size(), 2U);
  EXPECT_EQ(reader_.num_damaged_lines(), 2U);
  EXPECT_EQ(reader_.first_damaged_line(), 2U);
}

TEST_F(RunReaderTest, AFileThatARestartShortenedIsReadAnew) {
  append(line(1, 4) + line(2, 3) + line(3, 2));
  reader_.poll();
  replace(line(1, 4));
  EXPECT_TRUE(reader_.poll().anew);
  EXPECT_EQ(reader_.curves().last_step, 1);
  EXPECT_EQ(num_points(), 1U);
  ASSERT_EQ(reader_.curves().restarts.size(), 1U);
  EXPECT_EQ(reader_.curves().restarts[0], 2);
}

TEST_F(RunReaderTest, AFileThatHasGrownAgainSinceItWasShortenedIsReadAnew) {
  append(line(1, 4) + line(2, 3));
  reader_.poll();
  replace(line(1, 4) + line(2, 3.5) + line(3, 2));
  EXPECT_TRUE(reader_.poll().anew);
  EXPECT_EQ(num_points(), 3U);
  EXPECT_EQ(reader_.curves().find("loss")->curve.extremes()[1].value, 3.5);
}

TEST_F(RunReaderTest, ARestartIsWhereLinesDifferHoweverLateItIsSeen) {
  std::string before, after;
  for (int step = 1; step <= 100; ++step) before += line(step, 4);
  append(before);
  reader_.poll();
  for (int step = 1; step <= 150; ++step) after += line(step, step <= 60 ? 4 : 5);
  std::ofstream(folder_ / "new") << after;
  std::filesystem::rename(folder_ / "new", metrics_);
  EXPECT_TRUE(reader_.poll().anew);
  EXPECT_EQ(reader_.curves().last_step, 150);
  ASSERT_EQ(reader_.curves().restarts.size(), 1U);
  EXPECT_EQ(reader_.curves().restarts[0], 61);
  // A restart repeats steps that the file already has.
  after.clear();
  for (int step = 1; step <= 110; ++step) after += line(step, step <= 60 ? 4 : step <= 80 ? 5 : 6);
  replace(after);
  reader_.poll();
  ASSERT_EQ(reader_.curves().restarts.size(), 2U);
  EXPECT_EQ(reader_.curves().restarts[1], 81);
}

TEST_F(RunReaderTest, ACopyThatIsReplacedByALongerOneIsNoRestart) {
  append(line(1, 4) + line(2, 3));
  reader_.poll();
  std::ofstream(folder_ / "new") << line(1, 4) + line(2, 3) + line(3, 2);
  std::filesystem::rename(folder_ / "new", metrics_);
  EXPECT_TRUE(reader_.poll().anew);
  EXPECT_TRUE(reader_.curves().restarts.empty());
}

TEST(LineSums, OlderLinesThanAreKeptCountAsEqual) {
  LineSums sums;
  for (std::size_t i = 0; i < LineSums::kMaxLines + 1; ++i) sums.add("a");
  EXPECT_EQ(sums.num_lines(), LineSums::kMaxLines + 1);
  EXPECT_TRUE(sums.may_be(0, "b"));
  EXPECT_FALSE(sums.may_be(1, "b"));
  EXPECT_TRUE(sums.may_be(1, "a"));
  EXPECT_TRUE(sums.may_be(LineSums::kMaxLines + 1, "b"));  // a new line
}

TEST_F(RunReaderTest, AnotherFileOfTheNameIsReadAnew) {
  append(line(1, 4) + line(2, 3));
  reader_.poll();
  std::ofstream(folder_ / "new") << line(1, 4) + line(2, 3) + line(3, 2);
  std::filesystem::rename(folder_ / "new", metrics_);
  EXPECT_TRUE(reader_.poll().anew);
  EXPECT_EQ(num_points(), 3U);
}

TEST_F(RunReaderTest, StepsThatGoBackReplaceThoseOfBefore) {
  append(line(1, 4) + line(2, 3) + line(3, 2));
  reader_.poll();
  append(line(2, 7));
  EXPECT_TRUE(reader_.poll().anew);
  const auto points = reader_.curves().find("loss")->curve.extremes();
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[1].value, 7);
  EXPECT_EQ(reader_.curves().restarts.front(), 2);
}

TEST_F(RunReaderTest, AnEvaluationOfTheSameStepIsNoStepBack) {
  append(line(1, 4) + "{\"step\":1,\"eval_loss\":3}\n");
  EXPECT_FALSE(reader_.poll().anew);
  EXPECT_EQ(reader_.curves().find("eval_loss")->curve.extremes().size(), 1U);
}

TEST_F(RunReaderTest, SkippedStepsAreRanges) {
  for (const int step : {4, 5, 6, 9})
    append("{\"step\":" + std::to_string(step) + ",\"loss\":null,\"skipped\":true}\n");
  reader_.poll();
  const auto& skipped = reader_.curves().skipped;
  ASSERT_EQ(skipped.ranges().size(), 2U);
  EXPECT_EQ(skipped.ranges()[0], (std::pair<std::int64_t, std::int64_t>(4, 6)));
  EXPECT_EQ(skipped.count(), 4);
  EXPECT_EQ(reader_.curves().not_finite.count(), 4);
}

TEST_F(RunReaderTest, TwoHundredThousandStepsTakeBoundedRoom) {
  std::string text;
  for (int step = 1; step <= 200'000; ++step) text += line(step, 1.0 / step);
  append(text);
  EXPECT_TRUE(reader_.poll().anew);  // too many lines for news: everything is reloaded
  EXPECT_EQ(reader_.curves().last_step, 200'000);
  EXPECT_LE(num_points(), 2 * Curve::kMaxBuckets);
  EXPECT_GE(num_points(), Curve::kMaxBuckets / 2);
}

TEST_F(RunReaderTest, ALinkOutOfTheFolderIsNotFollowed) {
  const testing::TemporaryFolder elsewhere;
  std::ofstream(elsewhere / "metrics.jsonl") << line(1, 4);
  std::filesystem::create_symlink(elsewhere / "metrics.jsonl", metrics_);
  EXPECT_TRUE(reader_.poll().lines.empty());
}

}  // namespace
}  // namespace trireme

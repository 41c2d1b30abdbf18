#include "launcher/cluster/runs_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/error.h"
#include "tests/support/small_cluster.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kHeader =
    "source,gpu,precision,gpus,global_batch,micro_batch,seq_len,layers,hidden,heads,vocab,tensor,data,"
    "pipeline,"
    "zero,recompute,step_ms\n";
const std::string kGood = "a,card,bf16,8,64,2,1024,24,2048,16,50304,2,2,2,,1,1234.5\n";

class RunsFileTest : public ::testing::Test {
 protected:
  RunsFile read(const std::string& text, BadRows bad_rows = BadRows::kRefuse,
                MeasuredSteps steps = MeasuredSteps::kMayLack) {
    std::ofstream(scratch_ / "runs.csv") << text;
    return read_runs(scratch_ / "runs.csv", testing::small_cluster(), bad_rows, steps);
  }
  std::string refusal(const std::string& text, BadRows bad_rows = BadRows::kRefuse,
                      MeasuredSteps steps = MeasuredSteps::kMayLack) {
    try {
      read(text, bad_rows, steps);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
      return error.what();
    }
    return "";
  }
  testing::TemporaryFolder scratch_;
};

TEST_F(RunsFileTest, ReadsColumnsByName) {
  const RunsFile file = read(kHeader + kGood);
  ASSERT_EQ(file.runs.size(), 1u);
  const TrainingRun& run = file.runs[0];
  EXPECT_EQ(run.device, "card");
  EXPECT_EQ(run.ranks, 8);
  EXPECT_EQ(run.hidden, 2048);
  EXPECT_EQ(run.zero, std::nullopt);
  EXPECT_EQ(run.recompute, true);
  EXPECT_EQ(run.chunks, 1);
  EXPECT_EQ(run.step_ms, 1234.5);
}

TEST_F(RunsFileTest, WritesRowsAsTheyWereWithOneMoreColumn) {
  const RunsFile file = read(kHeader + kGood);
  std::string header = kHeader, row = kGood;
  header.pop_back();
  row.pop_back();
  const std::string predicted = header + ",predicted_ms\n" + row + ",1000.25\n";
  EXPECT_EQ(to_csv(file, {1000.25}), predicted);
  // An existing prediction column is replaced.
  EXPECT_EQ(to_csv(read(predicted), {1000.25}), predicted);
  EXPECT_EQ(to_csv(read("predicted_ms," + kHeader + "9," + kGood), {1000.25}), predicted);
}

TEST_F(RunsFileTest, ARowWithoutAMeasuredStepIsBadWhereOneIsNeeded) {
  const std::string without = "a,card,bf16,8,64,2,1024,24,2048,16,50304,2,2,2,,1,\n";
  EXPECT_EQ(read(kHeader + without).runs.size(), 1u);
  EXPECT_THAT(refusal(kHeader + kGood + without, BadRows::kRefuse, MeasuredSteps::kNeeded),
              HasSubstr("runs.csv:3, column step_ms: it is empty"));
  const RunsFile file = read(kHeader + kGood + without, BadRows::kSkip, MeasuredSteps::kNeeded);
  EXPECT_EQ(file.runs.size(), 1u);
  EXPECT_THAT(file.skipped, ElementsAre(HasSubstr("runs.csv:3, column step_ms")));
}

TEST_F(RunsFileTest, AFileWithoutARunIsRefused) {
  EXPECT_THAT(refusal(kHeader), HasSubstr("runs.csv: no row below the header is a run"));
  EXPECT_THAT(refusal(kHeader + "a,card\n", BadRows::kSkip), HasSubstr("the first: "));
}

TEST_F(RunsFileTest, BadCellsAreNamedByLineAndColumn) {
  EXPECT_THAT(refusal(kHeader + kGood + "a,card,bf16,8,sixty,2,1024,24,2048,16,50304,2,2,2,,1,9\n"),
              HasSubstr("runs.csv:3, column global_batch: \"sixty\" must be a number from 1"));
  EXPECT_THAT(refusal(kHeader + "a,card,bf16,8,64,0,1024,24,2048,16,50304,2,2,2,,1,9\n"),
              HasSubstr("runs.csv:2, column micro_batch: \"0\" must be a number from 1"));
  EXPECT_THAT(refusal(kHeader + "a,card,bf16,8,64,2.5,1024,24,2048,16,50304,2,2,2,,1,9\n"),
              HasSubstr("runs.csv:2, column micro_batch: 2.5 must be a whole number"));
  EXPECT_THAT(refusal(kHeader + "a,card,bf16,16,64,2,1024,24,2048,16,50304,2,2,2,,1,9\n"),
              HasSubstr("runs.csv:2, column gpus: 16 is not tensor * data * pipeline = 2 * 2 * 2"));
  EXPECT_THAT(refusal(kHeader + "a,cart,bf16,8,64,2,1024,24,2048,16,50304,2,2,2,,1,9\n"),
              HasSubstr("runs.csv:2, column gpu: the cluster has no device \"cart\"; the nearest is "
                        "[devices.card]"));
  EXPECT_THAT(refusal(kHeader + "a,card,bf61,8,64,2,1024,24,2048,16,50304,2,2,2,,1,9\n"),
              HasSubstr("runs.csv:2, column precision: unknown \"bf61\"; did you mean bf16?"));
  EXPECT_THAT(refusal(kHeader + "a,card,fp8,4,64,2,1024,24,2048,16,50304,1,2,2,,1,9\n"),
              HasSubstr("runs.csv:2: devices.card has no peak_tflops.fp8"));
  EXPECT_THAT(refusal(kHeader + "a,card,bf16,8\n"), HasSubstr("runs.csv:2: 4 cells, the header has 17"));
  EXPECT_THAT(refusal(kHeader + "a,card,bf16,8,64,2,1024,24,2048,16,50304,2,2,2,,1,nan\n"),
              HasSubstr("runs.csv:2, column step_ms"));
}

TEST_F(RunsFileTest, ColumnsThatAreMissingOrMistypedAreNamed) {
  EXPECT_THAT(refusal("gpu,precision\n"), HasSubstr("there is no column gpus; the nearest is gpu"));
  std::string typo = kHeader;
  typo.replace(typo.find("recompute"), 9, "recomputed");
  EXPECT_THAT(refusal(typo + kGood), HasSubstr("unknown column recomputed; did you mean recompute?"));
  EXPECT_THAT(refusal(""), HasSubstr("the file is empty"));
}

TEST_F(RunsFileTest, BadRowsAreLeftOutOnRequest) {
  const RunsFile file = read(kHeader + kGood + "a,card\n" + kGood, BadRows::kSkip);
  EXPECT_EQ(file.runs.size(), 2u);
  EXPECT_EQ(file.lines.size(), 2u);
  EXPECT_THAT(file.skipped, ElementsAre(HasSubstr("runs.csv:3: 2 cells")));
}

}  // namespace
}  // namespace trireme

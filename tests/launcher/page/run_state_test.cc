#include "launcher/page/run_state.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class RunStateTest : public ::testing::Test {
 protected:
  void write(const char* name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::app) << text;
  }
  nlohmann::ordered_json state() {
    RunReader reader(folder_.path());
    reader.poll();
    return run_state(reader);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(RunStateTest, ARunThatHasNotBegunWaits) {
  write("config.toml", "[train]\nsteps = 30\n");
  EXPECT_EQ(state()["status"], "waiting");
  EXPECT_EQ(state()["steps"], 30);
}

TEST_F(RunStateTest, ASummaryThatNoRunHasWrittenIsPassedOver) {
  write("metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  std::string many = "{\"status\":\"done\"";
  for (int i = 0; i < 90'000; ++i) many += ",\"k" + std::to_string(i) + "\":1";
  for (const std::string& text : {std::string(500'000, '['), many + "}"}) {
    std::filesystem::remove(folder_ / "summary.json");
    write("summary.json", text);
    EXPECT_EQ(state()["status"], "running");
  }
}

TEST_F(RunStateTest, OfALongHistoryTheNewestLinesCount) {
  write("metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  std::string history;
  for (int attempt = 1; history.size() < 1'000'000; ++attempt)
    history += fmt::format(R"({{"event":"begin","attempt":{0},"ranks":4,"first_step":{0}}})", attempt) + "\n";
  write("supervisor.jsonl", history + R"({"event":"gave_up","what":"the last word"})" + "\n");
  const auto events = state()["events"];
  EXPECT_LT(events.size(), 2000U);
  EXPECT_THAT(events.dump(), HasSubstr("gave_up: the last word"));
}

TEST_F(RunStateTest, ItsFilesTellWhenItChanges) {
  write("metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  for (const char* name : {"metrics.jsonl", "summary.json", "config.toml", "supervisor.jsonl"}) {
    const RunFiles before = run_files(folder_.path());
    EXPECT_EQ(run_files(folder_.path()), before);
    write(name, "{}\n");
    EXPECT_NE(run_files(folder_.path()), before) << name;
  }
  const RunFiles before = run_files(folder_.path());
  std::filesystem::create_directories(folder_ / "checkpoints/step-000001");
  EXPECT_NE(run_files(folder_.path()), before);
}

TEST_F(RunStateTest, TheSlowestRankIsMarked) {
  write("metrics.jsonl", "{\"step\":1,\"loss\":1,\"rank_step_ms\":[10,30,11]}\n");
  const auto ranks = state()["ranks"];
  ASSERT_EQ(ranks.size(), 3U);
  EXPECT_FALSE(ranks[0]["slowest"]);
  EXPECT_TRUE(ranks[1]["slowest"]);
  EXPECT_EQ(ranks[1]["excess_ms"], 19.5);  // above the median of the others
  EXPECT_EQ(state()["status"], "running");
}

// Resumed on fewer ranks: the line of an evaluation has no rank times, the line of a step does.
TEST_F(RunStateTest, RanksAreThoseOfTheNewestStep) {
  write("metrics.jsonl", "{\"step\":1,\"loss\":1,\"rank_step_ms\":[10,30]}\n{\"step\":1,\"eval_loss\":2}\n");
  const auto ranks = state()["ranks"];
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks[1]["excess_ms"], 20.0);
  EXPECT_EQ(ranks[0]["excess_ms"], -20.0);
  write("metrics.jsonl", "{\"step\":2,\"loss\":1}\n");
  EXPECT_TRUE(state()["ranks"].empty());
}

TEST_F(RunStateTest, EventsComeFromAllFiles) {
  write("metrics.jsonl",
        "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":null,\"skipped\":true}\n{\"step\":3,\"loss\":1}\n");
  write("supervisor.jsonl",
        "{\"time\":\"2026-01-01T00:00:00Z\",\"event\":\"begin\",\"attempt\":2,\"ranks\":4,\"first_step\":2,"
        "\"tag\":\"\"}\n"
        "{\"time\":\"2026-01-01T00:00:09Z\",\"event\":\"end\",\"attempt\":2,\"exit_code\":137,\"step\":3,"
        "\"verdict\":\"rank 1 died\",\"seconds\":9}\nnonsense\n");
  std::filesystem::create_directories(folder_ / "checkpoints/step-000002");
  std::filesystem::create_directories(folder_ / "checkpoints/.tmp-step-000003-x");
  std::string kinds;
  const auto found = state();
  for (const auto& event : found["events"]) kinds += event["kind"].get<std::string>() + " ";
  EXPECT_EQ(kinds, "restart checkpoint skip warning failure ");
  EXPECT_THAT(found["events"].back()["text"].get<std::string>(), HasSubstr("137 rank 1 died"));
}

TEST_F(RunStateTest, NumbersBeyondAllCountsAreZero) {
  for (const char* number : {"-9223372036854775808", "1e300", "18446744073709551615"}) {
    std::filesystem::remove(folder_ / "supervisor.jsonl");
    write("supervisor.jsonl",
          "{\"event\":\"begin\",\"attempt\":2,\"ranks\":4,\"first_step\":" + std::string(number) + "}\n");
    EXPECT_EQ(state()["events"][0]["text"], "attempt 2 starts at step 0 on 4 ranks") << number;
    EXPECT_EQ(state()["events"][0]["step"], 0);
  }
}

TEST_F(RunStateTest, ADamagedLineIsNamed) {
  write("metrics.jsonl", "{\"step\":1,\"loss\":1}\n{\"step\":2,\"skipped\":\"no\"}\n");
  EXPECT_THAT(state()["events"][0]["text"].get<std::string>(),
              HasSubstr("metrics.jsonl:2: the line is damaged; metrics.jsonl has 1 damaged line(s)"));
}

TEST_F(RunStateTest, ARunEndsWithItsSummaryAndDamageIsAbsence) {
  write("metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  write("summary.json", "{\"status\":\"do");
  EXPECT_EQ(state()["status"], "running");
  write("summary.json", "ne\"}");
  EXPECT_EQ(state()["status"], "done");
}

TEST_F(RunStateTest, ConfigurationIsKeysAndValues) {
  write("config.toml", "# made\n[model]\nname = \"gpt\"\nlayers  = 2\n\n[train]\nsteps = 5\n");
  EXPECT_EQ(run_config(folder_.path()).dump(),
            R"({"model.name":"\"gpt\"","model.layers":"2","train.steps":"5"})");
}

}  // namespace
}  // namespace trireme

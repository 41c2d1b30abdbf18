#include "launcher/observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/launcher/config/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

std::vector<json> read_lines(const std::filesystem::path& path) {
  std::vector<json> lines;
  std::istringstream text(testing::read_file(path));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

void write_steps(const std::filesystem::path& path, std::int64_t resume_step, std::int64_t last) {
  MetricsWriter writer({.path = path, .resume_step = resume_step});
  for (std::int64_t step = resume_step + 1; step <= last; ++step) {
    writer.write_step({.step = step, .loss = static_cast<double>(step)});
  }
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& path) {
  std::vector<std::int64_t> steps;
  for (const json& line : read_lines(path)) steps.push_back(line["step"]);
  return steps;
}

// The previous run wrote the line and died before the checkpoint had its loss.
TEST(Metrics, AnEvaluationThatIsMadeAgainHasOneLine) {
  const testing::TemporaryFolder scratch;
  const auto path = scratch / "metrics.jsonl";
  write_steps(path, 0, 2);
  MetricsWriter({.path = path, .resume_step = 2}).write_eval(2, {.loss = 1.5});
  const auto count_after = [&](bool evaluates_again) {
    MetricsWriter({.path = path, .resume_step = 2, .evaluates_again = evaluates_again});
    return read_lines(path).size();
  };
  EXPECT_EQ(count_after(false), 3u);
  EXPECT_EQ(count_after(true), 2u);
}

TEST(Metrics, ResumingKeepsLinesAfterADamagedOne) {
  const testing::TemporaryFolder scratch;
  const auto path = scratch / "metrics.jsonl";
  const std::string deep(1'000, '[');
  for (const std::string& damage :
       {std::string("{\"step\": 2,"), std::string("[2]"), std::string("{\"step\": \"2\"}"), deep,
        std::string("{\"step\":2,\"skipped\":\"no\",\"loss\":1}garbage"),
        "{\"step\": 2, \"x\": \"" + std::string(1 << 20, 'x') + "\"}"}) {
    const std::string kept = "{\"step\": 1}\n" + damage + "\n{\"step\": 3}\n";
    testing::write_file(path, kept + damage + "\n{\"step\": 4}\n{\"step\": 3}\n");
    MetricsWriter({.path = path, .resume_step = 3});
    EXPECT_EQ(testing::read_file(path), kept) << damage.substr(0, 30);
  }
}

// The hole has no memory and no line ends.
TEST(Metrics, AFileWithAHugeHoleIsCutBeforeIt) {
  const testing::TemporaryFolder scratch;
  const auto path = scratch / "metrics.jsonl";
  testing::write_file(path, "{\"step\": 1, \"step_ms\": 500}\n");
  std::error_code error;
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40, error);
  if (error) GTEST_SKIP() << "no sparse files here";
  EXPECT_EQ(recorded_step_seconds(path, 1, 9), 0.5);
  MetricsWriter({.path = path, .resume_step = 3});
  EXPECT_EQ(testing::read_file(path), "{\"step\": 1, \"step_ms\": 500}\n");
}

TEST(Metrics, APipeIsRefusedAtOnce) {
  const testing::TemporaryFolder scratch;
  const auto path = scratch / "metrics.jsonl";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(error_message([&] { MetricsWriter({.path = path}); }),
              ::testing::HasSubstr("metrics.jsonl: it is a pipe"));
}

TEST(Metrics, WhereTheTimeGoes) {
  const testing::TemporaryFolder scratch;
  const auto path = scratch / "metrics.jsonl";
  MetricsWriter writer({.path = path});
  const StepPhases engine{.forward_s = 0.25, .backward_s = 0.5, .exchange_s = 0.125, .optimizer_s = 1};
  writer.write_step({.step = 1,
                     .step_ms = 12,
                     .phases = phases_of_step(engine, 0.0625, 0.125, 3),
                     .rank_times = RankTimes({11, 9.5}),
                     .flops_per_s = 1e9,
                     .mfu = 0.25});
  writer.write_step({.step = 2, .step_ms = 12, .phases = phases_of_step({}, 0.0625, 0.125, 3)});
  writer.write_step({.step = 3, .step_ms = 1, .flops_per_s = 1e10});
  const auto lines = read_lines(path);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[2].contains("mfu") && lines[2]["mfu"].is_null()) << "the peak is not known any more";
  EXPECT_EQ(lines[0]["phase_s"], json({{"data_wait", 0.0625},
                                       {"forward", 0.25},
                                       {"backward", 0.5},
                                       {"exchange", 0.25},
                                       {"optimizer", 1.0},
                                       {"checkpoint", 3.0}}));
  EXPECT_EQ(lines[0]["mfu"], 0.25);
  EXPECT_EQ(lines[0]["flops_per_s"], 1e9);
  EXPECT_EQ(lines[0]["slowest_rank"], 0);
  EXPECT_EQ(lines[0]["slowest_excess_ms"], 1.5);
  EXPECT_EQ(lines[0]["rank_step_ms"], json({11, 9.5}));
  EXPECT_EQ(lines[1]["phase_s"], json({{"data_wait", 0.0625}, {"checkpoint", 3.0}}));
}

TEST(Metrics, ALineAStep) {
  const testing::TemporaryFolder scratch;
  const auto path = scratch / "metrics.jsonl";
  StepMetrics metrics{.step = 3,
                      .loss = 0.1f,
                      .lr = 1e-3,
                      .grad_norm = 2.5,
                      .step_ms = 12,
                      .throughput = 100,
                      .data_wait_ms = 0.5,
                      .comm_bytes = 77,
                      .memory = {.rank = 2, .peak_bytes = 1000}};
  metrics.memory.peak[MemoryCategory::kParameters] = 640;
  metrics.memory.peak[MemoryCategory::kWorkspace] = 64;
  {
    MetricsWriter writer({.path = path});
    writer.write_step(metrics);
    // The line is readable while the writer is open.
    EXPECT_EQ(read_lines(path).size(), 1u);
    writer.write_eval(3, {.loss = 1.5});
    writer.write_eval(4, {.loss = 1.25, .of_averages = true});
    metrics.state_hash = "00ff";
    writer.write_step(metrics);
  }
  const auto lines = read_lines(path);
  ASSERT_EQ(lines.size(), 4u);
  const json& line = lines[0];
  for (const char* key :
       {"step", "loss", "lr", "grad_norm", "loss_scale", "skipped", "step_ms", "tokens_per_s", "data_wait_ms",
        "comm_wait_ms", "comm_bytes", "peak_bytes", "peak_rank", "memory"}) {
    EXPECT_TRUE(line.contains(key)) << key;
  }
  // Unknown values are left out.
  for (const char* key : {"state_hash", "phase_s", "mfu", "flops_per_s", "slowest_rank", "rank_step_ms"}) {
    EXPECT_FALSE(line.contains(key)) << key;
  }
  EXPECT_EQ(line["loss"].get<float>(), 0.1f);
  EXPECT_EQ(line["skipped"], false);
  EXPECT_EQ(line["comm_bytes"], 77);
  EXPECT_EQ(line["memory"].size(), static_cast<std::size_t>(kNumMemoryCategories));
  EXPECT_EQ(line["peak_bytes"], 1000);
  EXPECT_EQ(line["peak_rank"], 2);
  EXPECT_EQ(line["memory"]["parameters"], 640);
  EXPECT_EQ(line["memory"]["workspace"], 64);
  EXPECT_EQ(lines[1], json({{"step", 3}, {"eval_loss", 1.5}}));
  EXPECT_EQ(lines[2], json({{"step", 4}, {"eval_loss", 1.25}, {"eval_weights", "ema"}}));
  EXPECT_EQ(lines[3]["state_hash"], "00ff");
}

TEST(Metrics, NotFiniteIsNull) {
  const testing::TemporaryFolder scratch;
  const auto path = scratch / "metrics.jsonl";
  MetricsWriter({.path = path}).write_step({.step = 1, .loss = std::nan(""), .grad_norm = INFINITY});
  EXPECT_TRUE(read_lines(path)[0]["loss"].is_null());
  EXPECT_TRUE(read_lines(path)[0]["grad_norm"].is_null());
}

TEST(Metrics, ResumeKeepsNoStepTwice) {
  const testing::TemporaryFolder scratch;
  const auto path = scratch / "metrics.jsonl";
  write_steps(path, 0, 5);
  write_steps(path, 3, 4);
  EXPECT_THAT(steps_in(path), ::testing::ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(read_lines(path)[3]["loss"], 4.0);
  write_steps(path, 0, 2);
  EXPECT_THAT(steps_in(path), ::testing::ElementsAre(1, 2));
}

TEST(Metrics, ResumeDropsATornLine) {
  const testing::TemporaryFolder scratch;
  const auto path = scratch / "metrics.jsonl";
  write_steps(path, 0, 2);
  std::ofstream(path, std::ios::app) << R"({"step":3,"lo)";
  write_steps(path, 3, 4);
  EXPECT_THAT(steps_in(path), ::testing::ElementsAre(1, 2, 4));
  // Valid JSON but without a newline: written again as well.
  std::ofstream(path, std::ios::app) << R"({"step":5})";
  write_steps(path, 5, 6);
  EXPECT_THAT(steps_in(path), ::testing::ElementsAre(1, 2, 4, 6));
}

TEST(Metrics, ResumeIntoAnEmptyFolder) {
  const testing::TemporaryFolder scratch;
  const auto path = scratch / "metrics.jsonl";
  write_steps(path, 7, 8);
  EXPECT_THAT(steps_in(path), ::testing::ElementsAre(8));
}

TEST(Metrics, ErrorNamesTheFile) {
  const testing::TemporaryFolder scratch;
  const auto file = scratch / "file";
  testing::write_file(file, "");
  EXPECT_THAT(error_message([&] { MetricsWriter({.path = file / "metrics.jsonl"}); }),
              ::testing::HasSubstr("file/metrics.jsonl: Not a directory"));
}

TEST(Metrics, ALinkIsRefusedAndItsTargetStays) {
  const testing::TemporaryFolder scratch;
  testing::write_file(scratch / "precious", "text");
  std::filesystem::create_symlink("precious", scratch / "metrics.jsonl");
  EXPECT_THAT(error_message([&] { MetricsWriter({.path = scratch / "metrics.jsonl"}); }),
              ::testing::HasSubstr("metrics.jsonl: it is a link to precious"));
  EXPECT_EQ(testing::read_file(scratch / "precious"), "text");
}

// A file size limit makes a write fail like a full disk.
TEST(Metrics, AFileThatCannotGrowFails) {
  const testing::TemporaryFolder scratch;
  MetricsWriter writer({.path = scratch / "metrics.jsonl"});
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const std::string message =
      error_message([&] { writer.write_eval(1, {.loss = 2.0}); }, ErrorCode::kRuntime);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  EXPECT_THAT(message, ::testing::HasSubstr("metrics.jsonl: File too large"));
}

}  // namespace
}  // namespace trireme

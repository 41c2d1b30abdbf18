#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "kernels/attention_workspace.h"
#include "launcher/job/build.h"
#include "launcher/render/text_table.h"
#include "launcher/report/plan_details.h"
#include "launcher/report/plan_report.h"

namespace trireme {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

JobConfig gpt2() {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model = {.size = "124m"};
  config.train = {.global_batch = 32, .micro_batch = 4};
  config.parallel.memory_limit = std::int64_t{100} << 30;
  return resolve(config);
}

/// Returns the screen and checks that it fits a terminal.
std::string screen_of(const JobConfig& config, int num_ranks) {
  const std::string text = to_text(make_plan_report(config, num_ranks));
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_LE(count, 30) << text;
  return text;
}

TEST(PlanScreen, OfOneRank) {
  const std::string text = screen_of(gpt2(), 1);
  EXPECT_THAT(text, HasSubstr("gpt: 124 M parameters in 14 blocks; 12 layers, 768 wide"));
  EXPECT_THAT(text, HasSubstr("\nlayout: 1 rank; fp32\nstep: 32 samples; 8 micro-batches of 4\n"));
  const MemoryStats memory = make_plan_report(gpt2(), 1).groups[0].prediction.memory;
  EXPECT_THAT(text, ContainsRegex("\n  0 +" + short_bytes(memory.peak_total) + " +475 MiB "));
  EXPECT_THAT(text, HasSubstr("\nfits: " + format_bytes(memory.peak_total) +
                              " of 100.00 GiB (parallel.memory_limit)"));
  EXPECT_THAT(text, Not(HasSubstr("sent/step")));  // nothing is sent
  EXPECT_THAT(text, HasSubstr("--memory"));
}

TEST(PlanScreen, OfCopiesInTheMemoryOfPartners) {
  JobConfig config = gpt2();
  config.checkpoint = {.every = 10, .partner = true};
  // 12 bytes per parameter: all of it on a single host, half of it twice on each of two, a quarter on each of
  // four.
  for (const auto& [ranks_per_machine, bytes] : {std::pair(4, "1.39 GiB"), {2, "1.39 GiB"}, {1, "712 MiB"}}) {
    const PlanReport report = make_plan_report(config, 4, ranks_per_machine);
    EXPECT_THAT(to_text(report),
                HasSubstr(fmt::format(
                    "\ncheckpoint.partner: {} more in /dev/shm/trireme-{{uid}} of each host", bytes)));
    const auto partner = to_json(report)["partner"];
    EXPECT_EQ(partner["folder"], "/dev/shm/trireme-{uid}");
    EXPECT_EQ(partner["host_bytes_while_copying"], 2 * partner["host_bytes"].get<std::int64_t>());
  }
  EXPECT_THAT(screen_of(config, 4), HasSubstr("where a"));
}

TEST(PlanScreen, OfShardedRanks) {
  JobConfig config = gpt2();
  config.parallel.layout.zero = ZeroStage::kParameters;
  const std::string text = screen_of(config, 8);
  EXPECT_THAT(
      text, HasSubstr("layout: 8 ranks, data parallel; zero = 3: parameters, gradients and optimizer state"));
  EXPECT_THAT(text, HasSubstr("step: 32 samples; 1 micro-batch of 4 on each data rank\n"));
  const std::int64_t sent = make_plan_report(config, 8).groups[0].prediction.sent_bytes;
  EXPECT_THAT(text, ContainsRegex("\n  0-7 .* " + short_bytes(sent) + "\n"));
}

TEST(PlanScreen, OfPipelines) {
  JobConfig config = gpt2();
  config.parallel.layout.pipeline = 4;
  const std::string text = screen_of(config, 4);
  EXPECT_THAT(text, HasSubstr("layout: 4 ranks = 4 stages x 1 data rank, schedule 1f1b; fp32\n"));
  EXPECT_THAT(text, HasSubstr("parallel.pipeline_cut = \"flops\""));
  EXPECT_THAT(text, ContainsRegex("\n  0 +0 +0-4 embedding to blocks.3 +23.7 % +67.7 M\n"));
  EXPECT_THAT(text, ContainsRegex("\n  3 +3 +13 head +29.0 % +38.6 M\n"));
  EXPECT_THAT(text, ContainsRegex("\npipeline bubble, simulated: 3[0-9].[0-9] % of a step"));
  config.parallel.layout.schedule = PipelineSchedule::kInterleaved;
  config.parallel.layout.chunks = 2;
  EXPECT_THAT(screen_of(config, 8), ContainsRegex("\n  3 +6-7 +5-6, 13 +[0-9.]+ % "));
}

// GPT-2 1.5B at 8192 tokens, planned for an 80 GB card on a machine without one.
JobConfig long_context() {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model = {.size = "1.5b", .seq_len = 8192};
  config.train = {.global_batch = 16, .micro_batch = 16};
  config.precision.mode = PrecisionMode::kBf16;
  config.parallel.layout.recompute_every = 1;
  config.parallel.device = DeviceType::kCuda;
  config.parallel.memory_limit = 80'000'000'000;
  return resolve(config);
}

TEST(PlanScreen, ShowsTheWorkspaceOfAttention) {
  const PlanReport report = make_plan_report(long_context(), 1);
  const MemoryStats& memory = report.groups[0].prediction.memory;
  const std::int64_t head = std::int64_t{8192} * 8192 * 2, rows = 16 * 25 * 8192 * 4;
  EXPECT_EQ(memory.peak[MemoryCategory::kWorkspace], 5 * head + rows);
  EXPECT_TRUE(report.fit.fits());
  EXPECT_EQ(report.fit.peak_bytes, memory.device_peak);
  EXPECT_THAT(screen_of(long_context(), 1),
              HasSubstr("\nworkspace of attention and products: 652.50 MiB more at"));
  EXPECT_THAT(memory_details(report), ContainsRegex(fmt::format("\n  workspace +{} ", 5 * head + rows)));
  EXPECT_EQ(to_json(report)["groups"][0]["workspace_bytes"], 5 * head + rows);

  // On the CPU the job has no such workspace, and rows of logits are contiguous: on a card those of 50257
  // classes are 50304 apart. All other memory is the same.
  JobConfig config = long_context();
  config.parallel.device = DeviceType::kCpu;
  const PlanReport on_cpu = make_plan_report(config, 1);
  const MemoryStats& of_cpu = on_cpu.groups[0].prediction.memory;
  EXPECT_EQ(of_cpu.peak[MemoryCategory::kWorkspace], 0);
  EXPECT_EQ(of_cpu.peak_total + 16 * 8192 * (50304 - 50257) * 2, memory.peak_total);
  EXPECT_EQ(of_cpu.device_peak, of_cpu.peak_total);
  EXPECT_THAT(to_text(on_cpu), Not(HasSubstr("workspace of")));
}

// The job would not fit without [Note: parts of an attention].
TEST(PlanScreen, OfALongContextFitsForThePartsOfAttention) {
  const JobConfig config = long_context();
  Backend whole = meta_backend();
  whole.ops.set<AttentionBwdArgs>([](const KernelContext& exec, const AttentionBwdArgs& args) {
    const auto bytes =
        static_cast<std::size_t>(attention_bwd_workspace(args, std::numeric_limits<std::int64_t>::max() / 8));
    exec.allocator->deallocate(exec.allocator->allocate(bytes, MemoryCategory::kWorkspace), bytes,
                               MemoryCategory::kWorkspace);
  });
  PlannedJob job = planned_job(config, build_blocks(config.model), 1);
  const auto peak = [&] {
    return predict_step(job.blocks, job.options, job.sample, job.num_ranks, 0).memory.device_peak;
  };
  EXPECT_LT(peak(), config.parallel.memory_limit);
  job.options.backend = &whole;
  EXPECT_GT(peak(), config.parallel.memory_limit);
  fmt::print("with all heads at a time: {}\n", format_bytes(peak()));
}

TEST(PlanScreen, SaysWhatWouldHelp) {
  JobConfig config = gpt2();
  config.parallel.layout.zero = ZeroStage::kOptimizer;
  const std::int64_t sharded = make_plan_report(config, 8).groups[0].prediction.memory.peak_total;
  config.parallel.layout.zero = ZeroStage::kNone;
  config.parallel.memory_limit = sharded;
  const std::string text = screen_of(config, 8);
  EXPECT_THAT(text, HasSubstr("the job does not fit: a rank needs "));
  EXPECT_THAT(text, HasSubstr("\nwith parallel.zero = 1 it fits, in " + format_bytes(sharded) + " a rank\n"));
  config.parallel.memory_limit = 1 << 20;
  EXPECT_THAT(screen_of(config, 8), HasSubstr("\nno larger parallel.zero, parallel.sequence, recompute, "));
}

// The screen has a limit for any number of ranks.
TEST(PlanScreen, OfManyStagesLeavesSomeOut) {
  JobConfig config = gpt2();
  config.model.layers = 30;
  config.parallel.layout.pipeline = 32;
  const std::string text = to_text(make_plan_report(config, 32));
  EXPECT_THAT(text, HasSubstr("\n  ... 17 more ...\n"));
  EXPECT_THAT(text, ContainsRegex("\n  31 +31 +31 head"));
}

TEST(PlanDetails, HaveEveryByteAndAction) {
  JobConfig config = gpt2();
  config.parallel.layout.pipeline = 2;
  const PlanReport report = make_plan_report(config, 4);
  const std::string memory = memory_details(report), actions = action_details(report);
  for (const RankGroupReport& group : report.groups) {
    const StepPrediction& prediction = group.prediction;
    for (const MemoryCategory category : predicted_categories()) {
      EXPECT_THAT(memory, ContainsRegex(fmt::format("\n  {} +{} +{}  ", name(category),
                                                    prediction.memory.peak[category],
                                                    prediction.memory.at_peak[category])));
    }
    EXPECT_THAT(memory, ContainsRegex(fmt::format("\n  total +{}\n", prediction.memory.peak_total)));
    EXPECT_THAT(memory, ContainsRegex(fmt::format("\n  sent +{}  ", prediction.sent_bytes)));
    EXPECT_THAT(memory, HasSubstr(prediction.describe(prediction.peak_action())));
  }
  EXPECT_THAT(memory, HasSubstr("ranks 2-3: "));
  EXPECT_THAT(actions, HasSubstr("SendActivation unit "));
  EXPECT_THAT(actions, HasSubstr("Backward unit 13 (head) micro-batch 0\n"));
}

TEST(PlanDetails, OfOneRankAreThatRanks) {
  JobConfig config = gpt2();
  config.parallel.layout.pipeline = 2;
  const PlanReport report = make_plan_report(config, 4);
  const std::string memory = memory_details(report, 3), actions = action_details(report, 3);
  EXPECT_EQ(memory.rfind("rank 3: ", 0), 0u);
  EXPECT_THAT(memory, Not(HasSubstr("0-1")));
  EXPECT_THAT(memory, HasSubstr(fmt::format("{}", report.groups[1].prediction.memory.peak_total)));
  EXPECT_EQ(actions.rfind(fmt::format("rank 3: {} actions\n", report.plan.ranks[3].actions.size()), 0), 0u);
  EXPECT_THAT(actions, Not(HasSubstr("Forward unit 0 (embedding)")));
}

TEST(TextTable, AlignsAndLeavesEmptyColumnsOut) {
  EXPECT_EQ(to_text({{"rank", "none", "bytes"}, {"0", "-", "12"}, {"10", "-", "-"}}, {}),
            "  rank  bytes\n  0        12\n  10        -\n");
  TextRows rows{{"n"}};
  for (int i = 0; i < 6; ++i) rows.push_back({std::to_string(i)});
  EXPECT_EQ(to_text(rows, {.most_rows = 4}), "  n\n  0\n  1\n  ... 3 more ...\n  5\n");
}

TEST(TextTable, BreaksLinesBetweenWords) {
  EXPECT_EQ(wrapped("one two three", 7), "one two\n  three\n");
  EXPECT_EQ(wrapped("one", 2), "one\n");
}

TEST(TextTable, ThreeDigitsOfNumbers) {
  EXPECT_EQ(short_bytes(0), "-");
  EXPECT_EQ(short_bytes(1023), "1023 B");
  EXPECT_EQ(short_bytes(1024), "1.00 KiB");
  EXPECT_EQ(short_bytes(999 * 1024), "999 KiB");
  EXPECT_EQ(short_bytes(1000 * 1024), "0.98 MiB");
  EXPECT_EQ(short_bytes(std::int64_t{3} << 50), "3072 TiB");
  EXPECT_EQ(short_count(9999), "9999");
  EXPECT_EQ(short_count(25'557'032), "25.6 M");
  EXPECT_EQ(short_count(999'999), "1.00 M");
}

}  // namespace
}  // namespace trireme

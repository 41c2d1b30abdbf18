// `trireme calibrate` and `trireme predict`.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "launcher/cluster/cluster_file.h"
#include "launcher/cluster/runs_file.h"
#include "launcher/keys/job_file.h"
#include "parallel/cluster/calibrate.h"
#include "tests/launcher/commands/cli_fixture.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::filesystem::path kRoot = TRIREME_SOURCE_DIR;
const std::filesystem::path kExamples = kRoot / "examples/clusters";
const std::filesystem::path kMegatron = kRoot / "tests/bench/megatron_sc21.csv";

double mean_absolute(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += std::abs(error);
  return sum / static_cast<double>(errors.size());
}

TEST_F(Cli, PredictsTheTenModelsOfMegatron) {
  const ProgramResult result =
      run({"predict", kMegatron, "--cluster", kExamples / "megatron-sc21.toml", "--out", "predicted.csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("10 runs predicted; of measured ones, absolute error: mean "));
  const Cluster cluster = read_cluster(kExamples / "megatron-sc21.toml");
  const RunsFile file = read_runs(scratch_ / "predicted.csv", cluster, BadRows::kRefuse);
  ASSERT_EQ(file.runs.size(), 10u);
  EXPECT_TRUE(file.header.ends_with(",step_ms,predicted_ms"));
  for (std::size_t i = 0; i < file.runs.size(); ++i) {
    const double predicted = std::stod(file.lines[i].substr(file.lines[i].rfind(',') + 1));
    EXPECT_NEAR(predicted / *file.runs[i].step_ms, 1, 0.10) << file.lines[i];
    EXPECT_NEAR(predicted / file.prices[i].step_ms(cluster), 1, 1e-4);
  }
}

TEST_F(Cli, MegatronsClusterHasTheCoefficientsOfVTrains) {
  Cluster fitted = read_cluster(kExamples / "vtrain-multi-calibrated.toml");
  const Cluster cluster = read_cluster(kExamples / "megatron-sc21.toml");
  fitted.name = cluster.name;
  fitted.framework.name = cluster.framework.name;
  fitted.framework.softmax_passes = cluster.framework.softmax_passes;
  EXPECT_EQ(to_toml(fitted), to_toml(cluster));
}

TEST_F(Cli, CalibratesAndPredictsWithTheResult) {
  // The runs on few ranks, whose steps are simulated soon.
  std::istringstream table(testing::read_file(kMegatron));
  std::ofstream few(scratch_ / "few.csv");
  std::string line;
  for (int i = 0; i < 6 && std::getline(table, line); ++i) few << line << '\n';
  few.close();
  const ProgramResult result = run({"calibrate", "few.csv", "--cluster", kExamples / "a100-80.toml", "--out",
                                    "fitted.toml", "--folds", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("coefficients fitted to 5 runs"));
  EXPECT_THAT(result.out, HasSubstr("Cross-validated: mean "));
  EXPECT_THAT(result.out, HasSubstr("Worst runs:"));
  const Cluster before = read_cluster(kExamples / "a100-80.toml");
  const Cluster fitted = read_cluster(scratch_ / "fitted.toml");
  std::vector<double> errors_before, errors;
  const RunsFile file = read_runs(scratch_ / "few.csv", before, BadRows::kRefuse);
  for (const MeasuredStep& run : file.measured()) {
    errors_before.push_back(run.error(before));
    errors.push_back(run.error(fitted));
  }
  EXPECT_LT(mean_absolute(errors), 0.7 * mean_absolute(errors_before));
}

TEST_F(Cli, BadInputOfPredictionsIsRefused) {
  std::ofstream(scratch_ / "bad.csv") << testing::read_file(kMegatron) + "x,a100-80gb,fp16,no\n";
  const std::string cluster = kExamples / "megatron-sc21.toml";
  EXPECT_THAT(refusal({"predict", "bad.csv", "--cluster", cluster, "--out", "p.csv"}),
              HasSubstr("bad.csv:12: 4 cells, the header has 18"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "p.csv"));
  EXPECT_THAT(refusal({"predict", kMegatron, "--cluster", kExamples / "t4.toml", "--out", "p.csv"}),
              HasSubstr("column gpu: the cluster has no device \"a100-80gb\""));
  EXPECT_THAT(refusal({"predict", kMegatron, "--cluster", "none.toml", "--out", "p.csv"}),
              HasSubstr("none.toml"));
  EXPECT_THAT(refusal({"calibrate", kMegatron, "--cluster", cluster, "--out", "c.toml", "--folds", "11"}),
              HasSubstr("11 folds"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "c.toml"));
  const ProgramResult skipped =
      run({"predict", "bad.csv", "--cluster", cluster, "--out", "p.csv", "--skip-bad"});
  EXPECT_EQ(skipped.exit_code, 0) << skipped.err;
  EXPECT_THAT(skipped.err, HasSubstr("bad.csv:12: 4 cells"));
  EXPECT_THAT(skipped.out, HasSubstr("10 runs predicted"));
}

/// Measured steps from public tables, beside the source tree and not part of it. measured_tables_test fits
/// them again.
TEST(MeasuredRuns, AreForeseenWithin8Percent) {
  for (const auto& [table, name] : {std::pair("vtrain_single.csv", "vtrain-single-calibrated.toml"),
                                    std::pair("vtrain_multi.csv", "vtrain-multi-calibrated.toml"),
                                    std::pair("mosaicml.csv", "mosaicml-calibrated.toml")}) {
    const auto file = kRoot.parent_path() / "shared/data/cluster_runs" / table;
    if (!std::filesystem::exists(file)) GTEST_SKIP() << "there is no ../shared/data/cluster_runs/" << table;
    const Cluster cluster = read_cluster(kExamples / name);
    const RunsFile table_of_runs = read_runs(file, cluster, BadRows::kRefuse);
    std::vector<double> errors;
    for (const MeasuredStep& run : table_of_runs.measured()) errors.push_back(run.error(cluster));
    EXPECT_LE(mean_absolute(errors), 0.08) << table;
  }
}

/// A small GPT on synthetic tokens.
std::string write_job(const std::filesystem::path& job) {
  std::ofstream(job)
      << "[model]\nname = \"gpt\"\nlayers = 4\nhidden = 64\nheads = 4\nvocab = 256\nseq_len = 32\n"
         "[data]\nkind = \"synthetic\"\n[train]\nglobal_batch = 16\nmicro_batch = 2\n"
         "[precision]\nmode = \"bf16\"\n";
  return job;
}

double planned_ms(const std::string& json) {
  const std::string key = "\"step_ms\": ";
  const std::size_t at = json.find(key);
  EXPECT_NE(at, std::string::npos) << json;
  return at == std::string::npos ? 0 : std::stod(json.substr(at + key.size()));
}

TEST_F(Cli, PlansTheTimeOfAJobOnACluster) {
  const std::string job = write_job(scratch_ / "job.toml");
  const std::string cluster = kExamples / "a100-80.toml";
  const ProgramResult text = run({"plan", job, "--cluster", cluster, "--ranks", "8"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  for (const char* part : {"a100-80 (a100-80gb), predicted: ", "ms a step", "samples/s", "tokens/s", "MFU ",
                           "pipeline bubble", "exposed communication"}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  const auto ms = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"plan", job, "--cluster", cluster, "--json"};
    all.insert(all.end(), more.begin(), more.end());
    const ProgramResult result = run(all);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return planned_ms(result.out);
  };
  const double one = ms({});
  EXPECT_GT(ms({"--set", "parallel.recompute_every=1"}), 1.1 * one);
  EXPECT_GT(ms({"--set", "train.global_batch=32"}), 1.8 * one);
  EXPECT_LT(ms({"--ranks", "2"}), one);
  EXPECT_EQ(ms({"--ranks", "2"}), ms({"--ranks", "2"}));
}

TEST_F(Cli, RefusesAPlanThatTheClusterCannotHave) {
  const std::string job = write_job(scratch_ / "job.toml");
  const std::string mosaic = kExamples / "mosaicml.toml";
  EXPECT_THAT(refusal({"plan", job, "--cluster", mosaic}),
              HasSubstr("Choose with --device: a100-40gb, a100-80gb, h100-80gb"));
  EXPECT_THAT(refusal({"plan", job, "--cluster", mosaic, "--device", "h200"}),
              HasSubstr("unknown device \"h200\": the cluster has a100-40gb, a100-80gb, h100-80gb"));
  Cluster cluster = read_cluster(kExamples / "a100-80.toml");
  cluster.devices[0].between.clear();
  std::ofstream(scratch_ / "node.toml") << to_toml(cluster);
  EXPECT_THAT(
      refusal({"plan", job, "--cluster", scratch_ / "node.toml", "--ranks", "16", "--set",
               "train.micro_batch=1"}),
      HasSubstr("node.toml: the run needs more than the 8 ranks of a node, and devices.a100-80gb has no link "
                "between nodes: say between = \"LINK\""));
  // Some layouts also exceed the memory, but the message is about the missing link.
  EXPECT_THAT(refusal({"plan", job, "--cluster", scratch_ / "node.toml", "--ranks", "16", "--search", "--set",
                       "train.micro_batch=1", "--set", "parallel.memory_limit=1300000"}),
              HasSubstr("between = \"LINK\""));
  cluster = read_cluster(kExamples / "a100-80.toml");
  cluster.links[0].gb_s = 0;
  std::ofstream(scratch_ / "zero.toml") << to_toml(cluster);
  EXPECT_THAT(refusal({"plan", job, "--cluster", scratch_ / "zero.toml"}),
              HasSubstr("gb_s = 0 must be from"));
  cluster = read_cluster(kExamples / "a100-80.toml");
  cluster.devices[0].peak_tflops.erase("bf16");
  std::ofstream(scratch_ / "peak.toml") << to_toml(cluster);
  EXPECT_THAT(refusal({"plan", job, "--cluster", scratch_ / "peak.toml"}), HasSubstr("peak_tflops.bf16"));
}

TEST_F(Cli, DrawsTheTimelineOfAClusterWithoutMeasuring) {
  const ProgramResult result =
      run({"plan", write_job(scratch_ / "job.toml"), "--cluster", kExamples / "a100-80.toml", "--ranks", "2",
           "--set", "parallel.pipeline=2", "--timeline", "step.svg"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::stringstream svg;
  svg << std::ifstream(scratch_ / "step.svg").rdbuf();
  EXPECT_THAT(svg.str(), HasSubstr("a100-80.toml (a100-80gb)"));
}

TEST_F(Cli, SearchesLayoutsAndWritesTheFastest) {
  const std::string job = write_job(scratch_ / "job.toml"), cluster = kExamples / "a100-80.toml";
  const ProgramResult found =
      run({"plan", job, "--cluster", cluster, "--ranks", "4", "--search", "--write", "best.toml"});
  ASSERT_EQ(found.exit_code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("against the one above"));
  const ProgramResult json = run({"plan", job, "--cluster", cluster, "--ranks", "4", "--search", "--json"});
  const ProgramResult plan =
      run({"plan", scratch_ / "best.toml", "--cluster", cluster, "--ranks", "4", "--json"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_DOUBLE_EQ(planned_ms(plan.out), planned_ms(json.out));  // the first layout's
  const auto first = nlohmann::json::parse(json.out)["layouts"][0];
  for (const char* key : {"pipeline_cut", "exchange", "accumulate_unsharded", "keep_gathered"}) {
    EXPECT_TRUE(first.contains(key)) << key;
  }
  EXPECT_EQ(first["exchange"], "auto");
  EXPECT_TRUE(first["cost"].is_null());  // no price
  const ProgramResult again =
      run({"plan", job, "--cluster", cluster, "--ranks", "4", "--search", "--write", job});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("job.toml: the file is there already; name another"));
}

TEST_F(Cli, NamesTheClosestLayoutOfAJobThatFitsNowhere) {
  const ProgramResult found =
      run({"plan", write_job(scratch_ / "job.toml"), "--cluster", kExamples / "a100-80.toml", "--ranks", "2",
           "--search", "--set", "parallel.memory_limit=100000"});
  EXPECT_EQ(found.exit_code, 2);
  EXPECT_THAT(found.out, HasSubstr("no layout fits; closest is tensor = 1"));
  const ProgramResult json =
      run({"plan", scratch_ / "job.toml", "--cluster", kExamples / "a100-80.toml", "--ranks", "2", "--search",
           "--json", "--set", "parallel.memory_limit=100000"});
  EXPECT_EQ(json.exit_code, 2);
  const auto report = nlohmann::json::parse(json.out);
  EXPECT_THAT(report["none"], HasSubstr("no layout fits"));
  EXPECT_EQ(report["closest"]["tensor"], 1);
  EXPECT_GT(report["closest"]["peak_bytes"], 100000);
}

TEST_F(Cli, SaysWhatOfTheJobLeavesNoLayout) {
  const std::string job = write_job(scratch_ / "job.toml"), cluster = kExamples / "a100-80.toml";
  const auto none = [&](const std::vector<std::string>& keys) {
    std::vector<std::string> command{"plan", job, "--cluster", cluster, "--ranks", "2", "--search"};
    for (const std::string& key : keys) command.insert(command.end(), {"--set", key});
    const ProgramResult found = run(command);
    EXPECT_EQ(found.exit_code, 2);
    return found.out + found.err;
  };
  EXPECT_THAT(none({"train.global_batch=10", "train.micro_batch=3"}),
              HasSubstr("train.micro_batch = 3 does not divide train.global_batch = 10: change one of them"));
  EXPECT_THAT(none({"parallel.layout=auto", "parallel.recompute_every=100"}),
              AllOf(HasSubstr("parallel.recompute_every = 100"), Not(HasSubstr("a100-80.toml"))));
}

}  // namespace
}  // namespace trireme

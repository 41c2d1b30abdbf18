// `trireme plan --cluster` with --scale, --cost, --budget and --deadline.
#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/cluster/cluster_file.h"
#include "tests/launcher/commands/cli_fixture.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class Forecast : public Cli {
 protected:
  Forecast() {
    std::ofstream(scratch_ / "job.toml")
        << "[model]\nname = \"gpt\"\nlayers = 4\nhidden = 64\nheads = 4\nvocab = 256\nseq_len = 32\n"
           "[data]\nkind = \"synthetic\"\n[train]\nsteps = 1000\nglobal_batch = 16\nmicro_batch = 2\n"
           "[precision]\nmode = \"bf16\"\n";
    Cluster cluster =
        read_cluster(std::filesystem::path(TRIREME_SOURCE_DIR) / "examples/clusters/a100-80.toml");
    write("free.toml", cluster);
    cluster.devices[0].price_per_hour = 3600;  // 1 per second
    cluster.cost = {.preemptible_discount = 0.5, .restart_s = 1, .save_gb_s = 1000};
    write("priced.toml", cluster);
  }

  void write(const std::string& file, const Cluster& cluster) {
    std::ofstream(scratch_ / file) << to_toml(cluster);
  }

  std::vector<std::string> command(const std::string& cluster, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"plan", scratch_ / "job.toml", "--cluster", scratch_ / cluster};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Json json(const std::string& cluster, std::vector<std::string> more) {
    more.push_back("--json");
    const ProgramResult result = run(command(cluster, more));
    EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
    return Json::parse(result.out);
  }
};

TEST_F(Forecast, ScalesAJobOverRanks) {
  const Json report = json("free.toml", {"--scale", "1..16", "--plot", scratch_ / "scale.svg"});
  ASSERT_EQ(report["scale"].size(), 5u);
  const Json &first = report["scale"][0], &last = report["scale"][4];
  EXPECT_EQ(first["strong"]["efficiency"], 1);
  EXPECT_EQ(first["weak"]["efficiency"], 1);
  EXPECT_EQ(last["ranks"], 16);
  EXPECT_TRUE(last["strong"].is_null());  // 16 samples cannot make 16 micro-batches of 2
  EXPECT_THAT(last["strong_refusal"].get<std::string>(),
              HasSubstr("train.global_batch = 16 has 8 micro-batches of train.micro_batch = 2, fewer than "
                        "the 16 data ranks"));
  EXPECT_FALSE(last.contains("weak_refusal"));
  EXPECT_THAT(run(command("free.toml", {"--scale", "8..16"})).out, HasSubstr("\n16 ranks, strong: "));
  EXPECT_LT(last["weak"]["efficiency"], 1);
  const Json& eight = report["scale"][3]["strong"];
  EXPECT_LT(eight["efficiency"], 1);
  // The efficiency follows from the planned steps.
  const double one_ms = json("free.toml", {})["time"]["step_ms"];
  const double eight_ms = json("free.toml", {"--ranks", "8"})["time"]["step_ms"];
  EXPECT_NEAR(eight["efficiency"].get<double>(), one_ms / eight_ms / 8, 1e-9);
  EXPECT_THAT(testing::read_file(scratch_ / "scale.svg"), HasSubstr("</svg>"));
}

// The accumulation and the cut into stages are the same as in training.
TEST_F(Forecast, ScalesTheStepThatIsPlanned) {
  for (const std::string layout : {"zero=3", "zero=2", "pipeline=2"}) {
    for (const std::string limit : {"0", "700000"}) {
      const std::vector<std::string> set = {"--set", "parallel." + layout, "--set",
                                            "parallel.memory_limit=" + limit};
      auto planned = set, scaled = set;
      planned.insert(planned.end(), {"--ranks", "4", "--json"});
      scaled.insert(scaled.end(), {"--scale", "4..4", "--json"});
      const Json plan = Json::parse(run(command("free.toml", planned)).out);
      const Json step = Json::parse(run(command("free.toml", scaled)).out)["scale"][0]["strong"];
      EXPECT_EQ(step["step_ms"], plan["time"]["step_ms"]) << layout << " " << limit;
    }
  }
}

TEST_F(Forecast, CostsWhatStepsTimesPricesAre) {
  const Json report = json("priced.toml", {"--cost", "--ranks", "8", "--plot", scratch_ / "cost.svg"});
  ASSERT_EQ(report["plans"].size(), 2u);
  const double step_s = json("priced.toml", {"--ranks", "8"})["time"]["step_ms"].get<double>() / 1e3;
  const Json &reserved = report["plans"][0], &preemptible = report["plans"][1];
  EXPECT_NEAR(reserved["total"].get<double>(), 8 * 1000 * step_s, 1e-3 * 8000 * step_s);
  EXPECT_NEAR(preemptible["total"].get<double>() / reserved["total"].get<double>(), 0.5, 1e-9);
  EXPECT_THAT(testing::read_file(scratch_ / "cost.svg"), HasSubstr("preemptible"));
  // 16 samples of 32 tokens per step.
  const Json tokens = json("priced.toml", {"--cost", "--ranks", "8", "--tokens", "51200"});
  EXPECT_EQ(tokens["steps"], 100);
}

TEST_F(Forecast, GrowsAndScalesItself) {
  const Json report = json("priced.toml", {"--cost", "--ranks", "2", "--grow", "1:0.5,4", "--autoscale",
                                           "1:8", "--deadline", "9"});
  ASSERT_EQ(report["plans"].size(), 8u);  // 2 ranks, 4 ranks, grown, autoscaled: reserved and preemptible
  EXPECT_EQ(report["plans"][4]["plan"], "1, 4 from 50 %");
  EXPECT_EQ(report["plans"][6]["plan"], "autoscale 1:8 to 9 h");
  const double hours = report["plans"][6]["hours"], device_hours = report["plans"][6]["device_hours"];
  EXPECT_NEAR(device_hours, hours, 1e-9);  // one rank is fast enough
  const double grown = report["plans"][4]["hours"], four = report["plans"][2]["hours"];
  EXPECT_GT(grown, four);
}

TEST_F(Forecast, ChoosesRanksForABudgetOrADeadline) {
  const Json all = json("priced.toml", {"--search", "--ranks", "4", "--budget", "1e9"});
  ASSERT_EQ(all["numbers_of_ranks"].size(), 3u);
  EXPECT_EQ(all["chosen_ranks"], 4);  // the fastest
  const double cheapest = all["numbers_of_ranks"][0]["cost"], hours = all["numbers_of_ranks"][1]["hours"];
  EXPECT_EQ(json("priced.toml",
                 {"--search", "--ranks", "4", "--budget", std::to_string(1.0001 * cheapest)})["chosen_ranks"],
            1);
  EXPECT_EQ(json("priced.toml", {"--search", "--ranks", "4", "--deadline",
                                 fmt::format("{:.9f}", 1.0001 * hours)})["chosen_ranks"],
            2);
  const ProgramResult none = run(command("priced.toml", {"--search", "--ranks", "2", "--budget", "0"}));
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.out, HasSubstr("nothing costs at most 0.00"));
}

// The two savings in examples/foresight/README.md.
TEST_F(Forecast, SavesWhatTheExampleSays) {
  const auto folder = std::filesystem::path(TRIREME_SOURCE_DIR) / "examples/foresight";
  const ProgramResult result = run({"plan", folder / "gpt_1.3b.toml", "--cluster", folder / "priced.toml",
                                    "--ranks", "16", "--cost", "--grow", "4:0.5,16", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json plans = Json::parse(result.out)["plans"];
  ASSERT_EQ(plans.size(), 4u);
  const double throughout = plans[0]["total"];
  EXPECT_NEAR(1 - plans[1]["total"].get<double>() / throughout, 0.676, 0.005);  // preemptible
  EXPECT_NEAR(1 - plans[2]["total"].get<double>() / throughout, 0.364, 0.005);  // grown
}

TEST_F(Forecast, ADeadlineThatIsMissedIsSaid) {
  const std::vector<std::string> scaled = {"--cost", "--ranks",    "2",   "--autoscale",
                                           "3:5",    "--deadline", "1e-6"};
  const Json report = json("priced.toml", scaled);
  EXPECT_EQ(report["points"].size(), 3u);  // 2, 3 and 5
  EXPECT_EQ(report["plans"][2]["deadline_hours"], 1e-6);
  const ProgramResult text = run(command("priced.toml", scaled));
  EXPECT_THAT(text.out, HasSubstr("autoscale 3:5 to 1e-06 h, reserved: misses its deadline by "));
  EXPECT_THAT(run(command("priced.toml", {"--cost", "--ranks", "1"})).out, HasSubstr("1 rank  reserved"));
}

TEST_F(Forecast, AnExpectationIsOfOneNumberOfRanks) {
  Cluster cluster = read_cluster(scratch_ / "priced.toml");
  cluster.cost.failures_per_hour = 100;
  write("failing.toml", cluster);
  const Json report = json("failing.toml", {"--cost", "--ranks", "4", "--grow", "1:0.5,4"});
  const Json& plans = report["plans"];
  ASSERT_EQ(plans.size(), 4u);  // 4 ranks, grown: reserved and preemptible
  EXPECT_GT(plans[0]["expected_hours"], 0);
  EXPECT_NEAR(plans[0]["expected_hours"].get<double>() / plans[0]["hours"].get<double>(), 1, 0.05);
  EXPECT_TRUE(plans[2]["expected_hours"].is_null());
  EXPECT_TRUE(plans[2]["daly_interval_s"].is_null());
}

TEST_F(Forecast, ACheckpointHasTheBytesOfItsFiles) {
  for (const std::vector<std::string>& keys : {std::vector<std::string>{},
                                               {"train.ema=0.99"},
                                               {"optimizer.name=muon"},
                                               {"train.freeze=[\"embedding*\"]"}}) {
    std::vector<std::string> cost = {"--cost"}, train = {"train", "job.toml", "--out", "run"};
    for (const std::string& key : keys) {
      cost.insert(cost.end(), {"--set", key});
      train.insert(train.end(), {"--set", key});
    }
    for (const char* key :
         {"train.steps=1", "checkpoint.every=1", "parallel.threads=1", "precision.mode=fp32"})
      train.insert(train.end(), {"--set", key});
    ASSERT_EQ(run(train).exit_code, 0);
    std::uintmax_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(scratch_ / "run/checkpoints/step-000001")) {
      if (file.path().extension() == ".safetensors") bytes += file.file_size();
    }
    EXPECT_DOUBLE_EQ(json("priced.toml", cost)["checkpoint_gb"], 1e-9 * static_cast<double>(bytes));
    std::filesystem::remove_all(scratch_ / "run");
  }
}

// One device is measured for one rank, one for two.
TEST_F(Forecast, EachNumberOfRanksHasItsDevice) {
  Cluster cluster = read_cluster(scratch_ / "free.toml");
  ClusterDevice two = cluster.devices[0];
  cluster.devices[0].ranks = 1;
  two.name = "slow";
  two.ranks = 2;
  two.peak_tflops["bf16"] /= 100;
  cluster.devices.push_back(two);
  write("measured.toml", cluster);
  const Json report = json("measured.toml", {"--scale", "1..4"});
  EXPECT_EQ(report["device"], cluster.devices[0].name + ", slow");
  EXPECT_EQ(report["scale"][1]["strong"]["step_ms"],
            json("measured.toml", {"--ranks", "2"})["time"]["step_ms"]);
  EXPECT_TRUE(report["scale"][2]["strong"].is_null());  // no device is measured for four
  const Json ranks =
      json("measured.toml", {"--search", "--ranks", "4", "--deadline", "1e6"})["numbers_of_ranks"];
  EXPECT_GT(ranks[1]["hours"], ranks[0]["hours"]);
  EXPECT_THAT(ranks[2]["layout"].get<std::string>(), HasSubstr("no device was measured"));
}

TEST_F(Forecast, AJobThatLeavesItsLayoutOpenIsForeseenInTheFastest) {
  const Json best = json("free.toml", {"--search", "--ranks", "4"})["layouts"][0];
  const std::vector<std::string> open = {"--ranks", "4", "--set", "parallel=auto"};
  const Json plan = json("free.toml", open);
  EXPECT_EQ(plan["time"]["step_ms"], best["step_ms"]);
  std::vector<std::string> all = {"--scale", "4..4", "--set", "parallel=auto"};
  EXPECT_EQ(json("free.toml", all)["scale"][0]["strong"]["step_ms"], best["step_ms"]);
  const ProgramResult text = run(command("free.toml", open));
  EXPECT_THAT(text.err, HasSubstr("parallel.layout = \"auto\" on 4 ranks: "));
  // With the job's own cluster description, and with one key kept.
  const std::string named = fmt::format("parallel.cluster=\"{}\"", (scratch_ / "free.toml").string());
  const ProgramResult kept = run({"plan", scratch_ / "job.toml", "--ranks", "4", "--set", "parallel=auto",
                                  "--set", named, "--set", "parallel.zero=3", "--json"});
  ASSERT_EQ(kept.exit_code, 0) << kept.err;
  EXPECT_GE(Json::parse(kept.out)["time"]["step_ms"], best["step_ms"]);
  EXPECT_THAT(kept.err, HasSubstr("parallel.zero = 3"));
  const std::vector<std::string> tight = {
      "plan",  scratch_ / "job.toml",       "--ranks", "4", "--set", "parallel=auto", "--set", named,
      "--set", "parallel.memory_limit=1000"};
  EXPECT_THAT(refusal(tight), HasSubstr("no layout fits; closest is tensor = 1, "));
}

TEST_F(Forecast, AFileThatCannotBeWrittenIsRefusedFirst) {
  EXPECT_THAT(refusal(command("free.toml", {"--scale", "1..2", "--plot", "/proc/plot.svg"})),
              HasSubstr("--plot /proc/plot.svg: "));
  EXPECT_THAT(refusal(command("free.toml", {"--search", "--write", "/proc/job.toml"})),
              HasSubstr("--write /proc/job.toml: "));
  EXPECT_THAT(refusal({"doctor", "--measure", "/proc/here.toml"}), HasSubstr("--measure /proc/here.toml: "));
  std::ofstream(scratch_ / "bad.toml") << "[devices.x]\nspeed = 3\n";
  EXPECT_THAT(refusal({"doctor", "--measure", scratch_ / "bad.toml"}), HasSubstr("bad.toml:2"));
}

TEST_F(Forecast, RefusesWhatItCannotSay) {
  EXPECT_THAT(refusal({"plan", scratch_ / "job.toml", "--search"}), HasSubstr("need --cluster FILE"));
  EXPECT_NE(run(command("priced.toml", {"--cost", "--seed", "-1"})).exit_code, 0);
  EXPECT_THAT(refusal(command("free.toml", {"--cost"})), HasSubstr("price_per_hour = 0: without a price"));
  EXPECT_THAT(refusal(command("free.toml", {"--search", "--budget", "5"})), HasSubstr("price_per_hour = 0"));
  EXPECT_THAT(refusal(command("free.toml", {"--scale", "8..2"})), HasSubstr("--scale 8..2"));
  EXPECT_THAT(refusal(command("free.toml", {"--scale", "1..8", "--search"})), HasSubstr("give one"));
  EXPECT_NE(run(command("free.toml", {"--scale", "1..8", "--ranks", "4"})).exit_code, 0);
  const std::vector<std::string> tight = {"--scale", "1..2", "--set", "parallel.memory_limit=1000"};
  EXPECT_EQ(run(command("free.toml", tight)).exit_code, 2);
  EXPECT_THAT(refusal(command("priced.toml", {"--cost", "--grow", "4:0.5"})), HasSubstr("--grow 4:0.5"));
  EXPECT_THAT(refusal(command("priced.toml", {"--cost", "--grow", "4:1.5,8"})), HasSubstr("shares"));
  EXPECT_THAT(refusal(command("priced.toml", {"--cost", "--autoscale", "1:4"})), HasSubstr("--deadline"));
  EXPECT_THAT(refusal(command("priced.toml", {"--cost", "--plot", "x.png"})), HasSubstr(".svg"));
}

}  // namespace
}  // namespace trireme

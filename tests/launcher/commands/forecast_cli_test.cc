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
    cluster.devices[0].price_per_hour = 3600;  // 1 a second
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
  EXPECT_TRUE(last["strong"].is_null());  // 16 samples do not make 16 micro-batches of 2
  EXPECT_LT(last["weak"]["efficiency"], 1);
  const Json& eight = report["scale"][3]["strong"];
  EXPECT_LT(eight["efficiency"], 1);
  // Efficiency is that of the steps that a plan has.
  const double one_ms = json("free.toml", {})["time"]["step_ms"];
  const double eight_ms = json("free.toml", {"--ranks", "8"})["time"]["step_ms"];
  EXPECT_NEAR(eight["efficiency"].get<double>(), one_ms / eight_ms / 8, 1e-9);
  EXPECT_THAT(testing::read_file(scratch_ / "scale.svg"), HasSubstr("</svg>"));
}

TEST_F(Forecast, CostsWhatStepsTimesPricesAre) {
  const Json report = json("priced.toml", {"--cost", "--ranks", "8", "--plot", scratch_ / "cost.svg"});
  ASSERT_EQ(report["plans"].size(), 2u);
  const double step_s = json("priced.toml", {"--ranks", "8"})["time"]["step_ms"].get<double>() / 1e3;
  const Json &reserved = report["plans"][0], &preemptible = report["plans"][1];
  EXPECT_NEAR(reserved["total"].get<double>(), 8 * 1000 * step_s, 1e-3 * 8000 * step_s);
  EXPECT_NEAR(preemptible["total"].get<double>() / reserved["total"].get<double>(), 0.5, 1e-9);
  EXPECT_THAT(testing::read_file(scratch_ / "cost.svg"), HasSubstr("preemptible"));
  // 16 samples of 32 tokens a step.
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
  EXPECT_NEAR(device_hours, hours, 1e-9);  // there is time enough for one rank
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

// The two savings of examples/foresight/README.md.
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

TEST_F(Forecast, RefusesWhatItCannotSay) {
  EXPECT_THAT(refusal(command("free.toml", {"--cost"})), HasSubstr("price_per_hour = 0: without a price"));
  EXPECT_THAT(refusal(command("free.toml", {"--search", "--budget", "5"})), HasSubstr("price_per_hour = 0"));
  EXPECT_THAT(refusal(command("free.toml", {"--scale", "8..2"})), HasSubstr("--scale 8..2"));
  EXPECT_THAT(refusal(command("free.toml", {"--scale", "1..8", "--search"})), HasSubstr("give one"));
  EXPECT_THAT(refusal(command("priced.toml", {"--cost", "--grow", "4:0.5"})), HasSubstr("--grow 4:0.5"));
  EXPECT_THAT(refusal(command("priced.toml", {"--cost", "--grow", "4:1.5,8"})), HasSubstr("shares"));
  EXPECT_THAT(refusal(command("priced.toml", {"--cost", "--autoscale", "1:4"})), HasSubstr("--deadline"));
  EXPECT_THAT(refusal(command("priced.toml", {"--cost", "--plot", "x.png"})), HasSubstr(".svg"));
}

}  // namespace
}  // namespace trireme

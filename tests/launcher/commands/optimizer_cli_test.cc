// Optimizers and averages of the weights through the built program: files, metrics, commands, resume.
#include <gmock/gmock.h>

#include "tests/launcher/commands/train_cli_fixture.h"

namespace trireme {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// A run with averages reports that it evaluates them. Commands use averages on request, and refuse a run
// without any. The exported file is a model.
TEST_F(TrainCli, AveragesAreEvaluatedSampledAndExported) {
  train_well("plain");
  train_well("run", {"train.ema=0.5"});
  EXPECT_EQ(summary("run")["loss"], summary("plain")["loss"]);
  EXPECT_NE(summary("run")["eval_loss"], summary("plain")["eval_loss"]);
  EXPECT_NE(summary("run")["state_hash"], summary("plain")["state_hash"]);
  EXPECT_EQ(summary("run")["eval_weights"], "ema");
  EXPECT_FALSE(summary("plain").contains("eval_weights"));
  for (const json& line : metrics("run", "eval_loss")) EXPECT_EQ(line["eval_weights"], "ema");
  for (const json& line : metrics("plain", "eval_loss")) EXPECT_FALSE(line.contains("eval_weights"));

  const auto eval = [&](const std::string& out, bool ema) {
    std::vector<std::string> command{"eval", out, "--threads", "1", "--json"};
    if (ema) command.emplace_back("--ema");
    const ProgramResult result = run(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  };
  const json averages = eval("run", true), parameters = eval("run", false);
  EXPECT_EQ(parameters["loss"], eval("plain", false)["loss"]);
  EXPECT_NE(averages["loss"], parameters["loss"]);
  EXPECT_EQ(averages["weights"], "ema");
  EXPECT_FALSE(parameters.contains("weights"));

  ASSERT_EQ(run({"export", "run", "--ema", "--out", "ema.safetensors"}).exit_code, 0);
  train_well("from", {"train.steps=1", "optimizer.lr=1e-30", "model.init_from=\"ema.safetensors\""});
  EXPECT_EQ(eval("from", false)["loss"], averages["loss"]);
  EXPECT_EQ(run({"sample", "run", "--ema", "--prompt", "s", "--tokens", "4", "--threads", "1"}).exit_code, 0);
  for (const std::vector<std::string>& command : {std::vector<std::string>{"eval", "plain", "--ema"},
                                                  {"sample", "plain", "--ema", "--prompt", "a"},
                                                  {"export", "plain", "--ema", "--out", "x.safetensors"}}) {
    const ProgramResult result = run(command);
    EXPECT_EQ(result.exit_code, 2) << command[0];
    EXPECT_THAT(result.err, HasSubstr("step-000006 has no averages of the parameters")) << command[0];
  }
}

// Averages may begin or end with a resumed run.
TEST_F(TrainCli, AveragesBeginAndEndWithAResumedRun) {
  train_well("run", {"train.steps=3", "checkpoint.every=3"});
  train_well("run", {"train.steps=5", "train.ema=0.5"});
  EXPECT_EQ(summary("run")["eval_weights"], "ema");
  train_well("run", {"train.steps=6"});
  train_well("whole");
  EXPECT_EQ(summary("run")["state_hash"], summary("whole")["state_hash"]);
}

TEST_F(TrainCli, LionAndMuonTrain) {
  for (const std::string name : {"lion", "muon"}) {
    train_well(name, {"optimizer.name=" + name, "optimizer.lr=1e-3"});
    const auto steps = metrics(name);
    EXPECT_LT(steps[5]["loss"], steps[0]["loss"]) << name;
    const std::string config = testing::read_file(scratch_ / name / "config.toml");
    EXPECT_THAT(config, HasSubstr(name == "lion" ? "betas = [0.9, 0.99]" : "momentum = 0.95")) << name;
  }
}

}  // namespace
}  // namespace trireme

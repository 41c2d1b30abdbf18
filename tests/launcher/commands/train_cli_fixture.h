// A job of a tiny GPT on a few lines of text, for tests of the built program.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/launcher/commands/cli_fixture.h"

namespace trireme {

class TrainCli : public Cli {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 200; ++i) text += "stroke " + std::to_string(i * i) + ", and pull\n";
    testing::write_file(scratch_ / "text.txt", text);
    ASSERT_EQ(run({"data", "text", "text.txt", "--out", "tokens"}).exit_code, 0);
    testing::write_file(
        scratch_ / "job.toml",
        "[model]\nlayers = 1\nhidden = 16\nheads = 2\nseq_len = 8\n"
        "[data]\ntrain = \"tokens\"\neval = \"tokens\"\n"
        "[train]\nsteps = 6\nglobal_batch = 8\nmicro_batch = 4\neval_every = 4\neval_batches = 2\n"
        "[optimizer]\nschedule = \"constant\"\n[checkpoint]\nevery = 3\n[log]\nstate_hash_every = 2\n");
  }

  std::vector<std::string> train(const std::string& out, std::vector<std::string> overrides = {}) {
    std::vector<std::string> command = {"train", "job.toml", "--out", out, "--set", "parallel.threads=1"};
    for (std::string& text : overrides) command.insert(command.end(), {"--set", std::move(text)});
    return command;
  }
  void train_well(const std::string& out, std::vector<std::string> overrides = {}) {
    const ProgramResult result = run(train(out, std::move(overrides)));
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  nlohmann::json summary(const std::string& out) {
    return nlohmann::json::parse(testing::read_file(scratch_ / out / "summary.json"));
  }
  /// Lines that contain `key`.
  std::vector<nlohmann::json> metrics(const std::string& out, const std::string& key = "loss") {
    std::vector<nlohmann::json> lines;
    std::istringstream text(testing::read_file(scratch_ / out / "metrics.jsonl"));
    for (std::string line; std::getline(text, line);) {
      if (auto parsed = nlohmann::json::parse(line); parsed.contains(key)) lines.push_back(std::move(parsed));
    }
    return lines;
  }
};

}  // namespace trireme

// A checkpoint is used with data by the built program: resume, model.init_from, eval, sample and export.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/manifest.h"
#include "tests/launcher/commands/train_cli_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DataRecordCli : public TrainCli {
 protected:
  /// Prepares a text of `lines` lines in `folder`, replacing what is there.
  void prepare(const std::string& folder, int lines, std::vector<std::string> more = {}) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += "oar " + std::to_string(i * 7) + " in the water\n";
    testing::write_file(scratch_ / "other.txt", text);
    fs::remove_all(scratch_ / folder);
    std::vector<std::string> command = {"data", "text", "other.txt", "--out", folder};
    command.insert(command.end(), more.begin(), more.end());
    const ProgramResult result = run(command);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  json content(const std::string& run, int step) {
    const auto file = scratch_ / run / fmt::format("checkpoints/step-{:06}/manifest.json", step);
    return json::parse(testing::read_file(file)).at("content");
  }
  /// Losses by step.
  std::map<int, double> losses(const std::string& out) {
    std::map<int, double> by_step;
    for (const json& line : metrics(out)) by_step[line["step"]] = line["loss"];
    return by_step;
  }
};

TEST_F(DataRecordCli, AResumeOnOtherTrainingDataIsRefusedUnlessAKeySaysThatItIsMeant) {
  const std::vector<std::string> keys = {"data.eval="};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), keys.begin(), keys.end());
    return more;
  };
  train_well("run", with({"train.steps=3"}));
  EXPECT_EQ(content("run", 3)["data"]["samples"], 24);
  // The same data in another place and under another name.
  fs::create_directories(scratch_ / "moved");
  fs::copy(scratch_ / "tokens/train.bin", scratch_ / "moved/shard.bin");
  train_well("run", with({"train.steps=4", "data.train=moved/shard.bin", "model.vocab=256"}));
  EXPECT_EQ(content("run", 4)["data"]["samples"], 32);

  prepare("tokens", 300);
  const std::string message = refusal(train("run", with({})));
  EXPECT_THAT(message, AllOf(HasSubstr("run/checkpoints/step-000004 was made with other training data: "),
                             HasSubstr("tokens, hash "), HasSubstr("data.train = \"tokens\" has "),
                             HasSubstr("checkpoint.new_data = true")));
  const ProgramResult meant = run(train("run", with({"checkpoint.new_data=true"})));
  EXPECT_EQ(meant.exit_code, 0) << meant.err;
  EXPECT_THAT(meant.out,
              HasSubstr("reading begins with the first sample of tokens; the previous run read 32"));
  EXPECT_EQ(content("run", 6)["data"]["samples"], 16);  // of the new data
  // The same command continues at its position.
  const ProgramResult again = run(train("run", with({"checkpoint.new_data=true", "train.steps=8"})));
  EXPECT_THAT(again.out, Not(HasSubstr("reading begins with the first sample")));
  EXPECT_EQ(content("run", 8)["data"]["samples"], 32);
  train_well("run", with({"train.steps=9"}));  // and the key is not needed any more
}

TEST_F(DataRecordCli, AResumeOnOtherEvaluationDataIsRefusedUnlessAKeySaysThatItIsMeant) {
  fs::copy(scratch_ / "tokens", scratch_ / "held");
  train_well("run", {"train.steps=3", "data.eval=held"});
  prepare("held", 300);
  EXPECT_THAT(refusal(train("run", {"data.eval=held"})),
              AllOf(HasSubstr("other evaluation data: "), HasSubstr("data.eval = \"held\" has ")));
  EXPECT_THAT(refusal({"eval", "run"}),
              AllOf(HasSubstr("other evaluation data: "), HasSubstr("name with --data")));
  EXPECT_EQ(run({"eval", "run", "--data", "held"}).exit_code, 0);
  train_well("run", {"data.eval=held", "checkpoint.new_data=true"});
  EXPECT_EQ(content("run", 6)["data"]["samples"], 48);  // the training data is the same
}

// At a learning rate that changes no parameter, the loss depends only on the samples.
TEST_F(DataRecordCli, AnotherBatchReadsEachSampleOnce) {
  const std::vector<std::string> keys = {"optimizer.lr=1e-30", "data.eval=", "train.micro_batch=2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), keys.begin(), keys.end());
    return more;
  };
  train_well("fours", with({"train.steps=12", "train.global_batch=4"}));
  train_well("sixes", with({"train.steps=8", "train.global_batch=6"}));
  const auto fours = losses("fours"), sixes = losses("sixes");

  // 24 samples in batches of 4, then batches of 6.
  train_well("run", with({"train.steps=6", "train.global_batch=4"}));
  const ProgramResult larger = run(train("run", with({"train.steps=8", "train.global_batch=6"})));
  ASSERT_EQ(larger.exit_code, 0) << larger.err;
  EXPECT_THAT(larger.out,
              AllOf(HasSubstr("train.global_batch was 4 and is 6: reading continues at sample 24"),
                    HasSubstr("count steps: 2 of 8 are left, with 6 samples each instead of 4")));
  EXPECT_EQ(losses("run").at(7), sixes.at(5));
  EXPECT_EQ(losses("run").at(8), sixes.at(6));
  // 36 samples so far, in batches of 6 and 4; then batches of 4.
  train_well("run", with({"train.steps=10", "train.global_batch=4"}));
  EXPECT_EQ(losses("run").at(9), fours.at(10));
  EXPECT_EQ(losses("run").at(10), fours.at(11));
  // From a position that is not a multiple of the batch: 44 samples.
  train_well("run", with({"train.steps=11", "train.global_batch=6"}));
  EXPECT_EQ(content("run", 11)["data"]["samples"], 50);
}

TEST_F(DataRecordCli, AnEvaluationWithAnotherTokenizerIsRefused) {
  prepare("subwords", 300, {"--train-tokenizer", "300"});
  train_well("bytes", {"train.steps=1"});
  train_well("subword", {"train.steps=1", "data.train=subwords", "data.eval="});
  EXPECT_THAT(refusal({"eval", "bytes", "--data", "subwords"}),
              AllOf(HasSubstr("another tokenizer: bytes of 256 tokens, and --data \"subwords\" has "
                              "sentencepiece of 300 tokens, hash ")));
  EXPECT_THAT(refusal({"eval", "subword", "--data", "tokens"}),
              HasSubstr("and --data \"tokens\" has bytes of 256 tokens"));
}

TEST_F(DataRecordCli, ATokenizerOfTheSameSizeIsAnotherOne) {
  prepare("subwords", 300, {"--train-tokenizer", "300"});
  train_well("run", {"train.steps=3", "data.train=subwords", "data.eval="});
  fs::rename(scratch_ / "subwords", scratch_ / "before");
  ASSERT_EQ(run({"data", "text", "text.txt", "--out", "subwords", "--train-tokenizer", "300"}).exit_code, 0);

  EXPECT_THAT(refusal({"eval", "run", "--data", "subwords"}), HasSubstr("another tokenizer"));
  const std::string sampled = refusal({"sample", "run", "--tokenizer", "subwords/tokenizer.model"});
  EXPECT_THAT(sampled, AllOf(HasSubstr("--tokenizer \"subwords/tokenizer.model\" has sentencepiece"),
                             HasSubstr("Leave --tokenizer out")));
  EXPECT_EQ(run({"sample", "run", "--tokenizer", "before/tokenizer.model", "--tokens", "1"}).exit_code, 0);
  EXPECT_THAT(refusal(train("run", {"data.train=subwords", "data.eval="})), HasSubstr("another tokenizer"));

  ASSERT_EQ(run({"export", "run", "--out", "weights.safetensors"}).exit_code, 0);
  ASSERT_EQ(run({"export", "run", "--format", "hf", "--out", "theirs"}).exit_code, 0);
  EXPECT_EQ(testing::read_file(scratch_ / "theirs/tokenizer.model"),
            testing::read_file(scratch_ / "before/tokenizer.model"));
  for (const char* start : {"model.init_from=weights.safetensors", "model.init_from=theirs"}) {
    const std::string place = std::string(start).substr(std::string("model.init_from=").size());
    EXPECT_THAT(refusal(train("tuned", {start, "data.train=subwords", "data.eval="})),
                AllOf(HasSubstr("model.init_from: " + place + " was made with another tokenizer"),
                      HasSubstr("data.train = \"subwords\""), HasSubstr("checkpoint.new_data = true")));
    train_well(place + "-same", {start, "data.train=before", "data.eval="});
  }
  for (const char* start : {"model.init_from=run", "model.init_from=run/checkpoints/step-000003",
                            "model.init_from=run/checkpoints/step-000003/model.safetensors"}) {
    EXPECT_THAT(
        refusal(train("tuned", {start, "data.train=subwords", "data.eval="})),
        AllOf(HasSubstr("model.init_from: run/checkpoints/step-000003 was made with another tokenizer"),
              HasSubstr("data.train = \"subwords\"")));
  }
  const ProgramResult meant = run(train(
      "tuned", {"model.init_from=run", "data.train=subwords", "data.eval=", "checkpoint.new_data=true"}));
  EXPECT_EQ(meant.exit_code, 0) << meant.err;
  EXPECT_THAT(meant.err, HasSubstr("another tokenizer"));
  train_well("same", {"model.init_from=run", "data.train=before", "data.eval="});

  fs::copy_file(scratch_ / "subwords/tokenizer.model",
                scratch_ / "run/checkpoints/step-000003/tokenizer.model",
                fs::copy_options::overwrite_existing);
  for (const std::vector<std::string>& command : {std::vector<std::string>{"sample", "run", "--tokens", "1"},
                                                  {"export", "run", "--format", "hf", "--out", "model"}}) {
    const ProgramResult result = run(command);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("run/checkpoints/step-000003/tokenizer.model"));
  }
  EXPECT_FALSE(fs::exists(scratch_ / "model"));
}

// The "no" cells of the table in launcher/design_notes.md.
TEST_F(DataRecordCli, DataThatACommandDoesNotReadIsNotCompared) {
  prepare("held", 250);
  train_well("run", {"train.steps=3", "data.eval=held"});
  prepare("others", 300);
  prepare("also", 280);
  train_well("tuned", {"model.init_from=run", "train.steps=3", "data.train=others", "data.eval=also"});
  EXPECT_EQ(content("tuned", 3)["data"]["samples"], 24);  // counted from the first sample
  const auto eval_loss = [&] {
    const ProgramResult result = run({"eval", "run", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out)["loss"];
  };
  const json before = eval_loss();
  prepare("tokens", 100);
  EXPECT_EQ(eval_loss(), before);
  fs::remove_all(scratch_ / "tokens");
  EXPECT_EQ(eval_loss(), before);
  fs::remove_all(scratch_ / "held");
  for (const std::vector<std::string>& command : {std::vector<std::string>{"sample", "run", "--tokens", "1"},
                                                  {"export", "run", "--out", "weights.safetensors"},
                                                  {"export", "run", "--format", "hf", "--out", "theirs"}}) {
    const ProgramResult result = run(command);
    EXPECT_EQ(result.exit_code, 0) << command[0] << ": " << result.err;
  }
}

// The checkpoint of an earlier build.
TEST_F(DataRecordCli, ACheckpointWithoutARecordIsAcceptedWithALine) {
  train_well("run", {"train.steps=3"});
  const fs::path checkpoint = scratch_ / "run/checkpoints/step-000003";
  Manifest manifest = read_manifest(checkpoint);
  for (const char* key : {"data", "spikes"}) ASSERT_EQ(manifest.content.erase(key), 1u);
  write_manifest(manifest, checkpoint);
  prepare("tokens", 300);
  const ProgramResult result = run(train("run", {"train.on_spike=warn"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("is of an earlier build, which saved no fingerprint of its data"),
                                HasSubstr("which saved no losses of steps before it")));
  EXPECT_EQ(content("run", 6)["data"]["samples"], 48);
}

// Warm-up ends at a learning rate that is far too high: the gradient norm leaps at about step 20.
TEST_F(DataRecordCli, TheSpikesOfARunAreInItsCheckpoints) {
  testing::write_file(scratch_ / "leap.toml",
                      "[model]\nlayers = 1\nhidden = 8\nheads = 2\nseq_len = 8\nvocab = 17\n"
                      "[data]\nkind = \"synthetic\"\n"
                      "[train]\nsteps = 26\nglobal_batch = 2\nmicro_batch = 1\non_spike = \"skip\"\n"
                      "[optimizer]\nname = \"sgd\"\nlr = 2.0\nweight_decay = 0.0\nschedule = \"constant\"\n"
                      "warmup_steps = 23\ngrad_clip = 0.0\n"
                      "[parallel]\nthreads = 1\n[checkpoint]\nevery = 13\nkeep = 0\n");
  ASSERT_EQ(run({"train", "leap.toml", "--out", "whole"}).exit_code, 0);
  int left_out = 0;
  for (const json& line : metrics("whole")) left_out += line["skipped"].get<bool>() ? 1 : 0;
  EXPECT_GT(left_out, 0);
  const ProgramResult resumed = run(
      {"train", "leap.toml", "--out", "branch", "--set", "checkpoint.resume=whole/checkpoints/step-000013"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(summary("branch")["state_hash"], summary("whole")["state_hash"]);
  EXPECT_EQ(content("branch", 26)["spikes"], content("whole", 26)["spikes"]);
}

}  // namespace
}  // namespace trireme

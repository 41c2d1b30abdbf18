// Whole runs of one rank through the built program: files, resume, refusals, memory as planned, samples.
// tests/jobs has runs of several ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "launcher/config/config.h"
#include "launcher/keys/job_file.h"
#include "tests/launcher/commands/train_cli_fixture.h"

namespace trireme {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

// More threads than any machine has: through the key, the options and the timing of blocks; and allowed by
// the key.
TEST_F(TrainCli, MoreThreadsThanCoresAreRefusedUnlessAKeySaysSo) {
  const std::string key = "parallel.threads=3999";
  const ProgramResult trained = run(train("run", {key}));
  EXPECT_EQ(trained.exit_code, 2);
  EXPECT_THAT(trained.err, AllOf(HasSubstr("parallel.threads = 3999: this process may use"),
                                 HasSubstr("parallel.oversubscribe = true")));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "run"));
  const ProgramResult timed = run({"plan", "job.toml", "--timeline", "step.svg", "--set", key});
  EXPECT_EQ(timed.exit_code, 2);
  EXPECT_THAT(timed.err, HasSubstr("parallel.threads = 3999"));
  EXPECT_EQ(run({"plan", "job.toml", "--set", key}).exit_code, 0);  // the plan may be for a larger machine

  train_well("run", {"train.steps=1"});
  for (const std::string command : {"sample", "eval"}) {
    const ProgramResult result = run({command, "run", "--threads", "3999"});
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_THAT(result.err, HasSubstr("--threads = 3999: this process may use")) << command;
  }
  const unsigned beyond = std::thread::hardware_concurrency() + 1;
  train_well("many",
             {"train.steps=1", "parallel.threads=" + std::to_string(beyond), "parallel.oversubscribe=true"});
  EXPECT_EQ(summary("many")["state_hash"], summary("run")["state_hash"]);
}

// Every step overflows: with an initial scale far too high, which more steps would lower, and with a fixed
// scale.
TEST_F(TrainCli, ARunWithoutAnUpdateFailsAndOneWithSomeSaysHowMany) {
  const std::vector<std::string> fp16 = {"precision.mode=fp16", "precision.scale_init=1e12"};
  for (int again = 0; again < 2; ++again) {  // the second run resumes after its last step
    const ProgramResult none = run(train("run", fp16));
    EXPECT_EQ(none.exit_code, 1);
    EXPECT_THAT(none.err, AllOf(HasSubstr("error: no update was made: all 6 steps were skipped"),
                                HasSubstr("lower precision.scale_init = ")));
    EXPECT_THAT(none.out, HasSubstr("failed at step 6 of 6 with 0 updates (6 steps were skipped), state "));
    EXPECT_EQ(summary("run")["status"], "failed");
    EXPECT_EQ(summary("run")["updates"], 0);
  }
  const ProgramResult some = run(train("run", {fp16[0], "precision.scale_init=1024", "train.steps=8"}));
  EXPECT_EQ(some.exit_code, 0) << some.err;
  EXPECT_THAT(some.out,
              AllOf(HasSubstr("the checkpoint is of step 6 with 0 updates (6 steps were skipped)"),
                    HasSubstr("done at step 8 of 8 with 2 updates (6 steps were skipped), state ")));
  EXPECT_EQ(summary("run")["updates"], 2);
  const ProgramResult fixed = run(train("fixed", {fp16[0], "precision.loss_scale=1e12"}));
  EXPECT_EQ(fixed.exit_code, 1);
  EXPECT_THAT(fixed.err, HasSubstr("a smaller precision.loss_scale, or \"dynamic\""));
}

TEST_F(TrainCli, WritesWhatItPromises) {
  train_well("run");
  const auto steps = metrics("run");
  ASSERT_EQ(steps.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(steps[i]["step"], i + 1);
    EXPECT_EQ(steps[i].contains("state_hash"), i % 2 == 1);
  }
  const auto evals = metrics("run", "eval_loss");
  ASSERT_EQ(evals.size(), 2u);  // every 4 steps, and after the last one
  EXPECT_EQ(evals[0]["step"], 4);
  EXPECT_EQ(evals[1]["step"], 6);
  EXPECT_LT(steps[5]["loss"], steps[0]["loss"]);

  const json figures = summary("run");
  EXPECT_EQ(figures["updates"], 6);
  EXPECT_EQ(figures["status"], "done");
  EXPECT_EQ(figures["steps"], 6);
  EXPECT_EQ(figures["loss"], steps[5]["loss"]);
  EXPECT_EQ(figures["eval_loss"], evals[1]["eval_loss"]);
  EXPECT_EQ(figures["state_hash"], steps[5]["state_hash"]);
  EXPECT_EQ(figures["layout"]["ranks"], 1);

  const std::string config = testing::read_file(scratch_ / "run/config.toml");
  EXPECT_EQ(to_toml(parse_config(config, "config.toml")), config);
  EXPECT_THAT(config, HasSubstr("vocab = 256"));  // resolved
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "run/checkpoints/step-000003/manifest.json"));
  EXPECT_EQ(figures["checkpoint"], "run/checkpoints/step-000006");

  // The run is complete: the same command does nothing, and the figures stay.
  train_well("run");
  EXPECT_EQ(summary("run"), figures);
  EXPECT_EQ(metrics("run").size(), 6u);
}

TEST_F(TrainCli, TracesOneStep) {
  train_well("plain");
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "plain" / "trace.json"));
  train_well("traced", {"log.trace_step=2"});
  const json trace = json::parse(testing::read_file(scratch_ / "traced" / "trace.json"));
  int forwards = 0, updates = 0;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    EXPECT_GE(event.at("dur"), 0);
    forwards += event.at("cat") == "forward" ? 1 : 0;
    updates += event.at("cat") == "update" ? 1 : 0;
  }
  EXPECT_EQ(forwards, 3 * 2);  // blocks, micro-batches
  EXPECT_EQ(updates, 2 + 3);   // GradNorm, ClipGrad, OptimStep of each block
  EXPECT_THAT(testing::read_file(scratch_ / "traced" / "trace.svg"), HasSubstr(">Step 2<"));
  EXPECT_EQ(summary("traced")["state_hash"], summary("plain")["state_hash"]);
  EXPECT_THAT(
      refusal(train("bad", {"log.trace_step=2", "parallel.cuda_graph=true"})),
      HasSubstr("log.trace_step = 2: a step that parallel.cuda_graph replays has no actions to time"));
}

TEST_F(TrainCli, TracesStepsOfARange) {
  train_well("traced", {"log.trace_step=2-5/2"});
  for (int step = 1; step <= 6; ++step) {
    for (const char* suffix : {"json", "svg"}) {
      const auto file = scratch_ / "traced" / fmt::format("trace-{:06}.{}", step, suffix);
      EXPECT_EQ(std::filesystem::exists(file), step == 2 || step == 4) << file;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "traced" / "trace.json"));
}

TEST_F(TrainCli, ResumedRunIsTheUninterruptedOne) {
  train_well("whole");
  train_well("parts", {"train.steps=4"});
  train_well("parts");
  EXPECT_EQ(summary("parts")["state_hash"], summary("whole")["state_hash"]);
  EXPECT_EQ(summary("parts")["first_step"], 5);
  const auto whole = metrics("whole"), parts = metrics("parts");
  ASSERT_EQ(parts.size(), whole.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i]["step"], whole[i]["step"]);
    EXPECT_EQ(parts[i]["loss"], whole[i]["loss"]);
  }
  // From a checkpoint that is not the newest, into another folder.
  train_well("branch", {"checkpoint.resume=whole/checkpoints/step-000003"});
  EXPECT_EQ(summary("branch")["state_hash"], summary("whole")["state_hash"]);
  EXPECT_EQ(metrics("branch").front()["step"], 4);
}

TEST_F(TrainCli, ALossThatIsNotFiniteEndsTheRunWithAName) {
  const ProgramResult result =
      run(train("run", {"optimizer.name=sgd", "optimizer.lr=1e30", "train.steps=50"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("the gradient norm"), HasSubstr("a lower optimizer.lr"),
                    HasSubstr("is skipped: the gradient of parameter '"), HasSubstr("on rank 0")));
  const auto steps = metrics("run");
  EXPECT_EQ(steps.back()["skipped"], true);
  EXPECT_EQ(steps.front()["skipped"], false);
}

TEST_F(TrainCli, EveryPrecisionTrainsEvaluatesAndSamples) {
  for (const char* mode : {"tf32", "bf16", "fp16"}) {
    const std::string set_mode = std::string("precision.mode=") + mode;
    train_well(std::string("whole_") + mode, {set_mode});
    const std::string parts = std::string("parts_") + mode;
    train_well(parts, {set_mode, "train.steps=4"});
    train_well(parts, {set_mode});
    EXPECT_EQ(summary(parts)["state_hash"], summary(std::string("whole_") + mode)["state_hash"]) << mode;
    EXPECT_EQ(summary(parts)["precision"], mode);
    for (const json& line : metrics(parts)) {
      EXPECT_EQ(line["loss_scale"], mode == std::string("fp16") ? 65536.0 : 1.0);
      EXPECT_EQ(line["skipped"], false);
    }
    EXPECT_EQ(metrics(parts, "eval_loss").size(), 2u);
    const ProgramResult text =
        run({"sample", parts, "--prompt", "stroke", "--tokens", "5", "--threads", "1"});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("stroke"));
  }
}

TEST_F(TrainCli, MemoryIsAsPlannedIn16Bits) {
  train_well("run", {"precision.mode=fp16"});
  const ProgramResult plan = run({"plan", "job.toml", "--json", "--set", "precision.mode=fp16"});
  const json planned = json::parse(plan.out);
  EXPECT_EQ(planned["precision"], "fp16");
  json measured = metrics("run").back()["memory"];
  measured.erase("workspace");
  EXPECT_EQ(planned["groups"][0]["memory"], measured);
}

TEST_F(TrainCli, OverflowsThatDoNotEndEndTheRun) {
  const ProgramResult off = run(train(
      "off", {"precision.mode=fp16", "precision.loss_scale=off", "optimizer.name=sgd", "optimizer.lr=1e30"}));
  EXPECT_EQ(off.exit_code, 1);
  EXPECT_THAT(off.err, AllOf(HasSubstr("set precision.loss_scale = \"dynamic\""), HasSubstr("parameter '"),
                             HasSubstr("no checkpoint was saved: checkpoint.every")));
  const ProgramResult saved =
      run(train("saved", {"optimizer.name=sgd", "optimizer.lr=1e30", "checkpoint.every=1"}));
  EXPECT_THAT(saved.err, HasSubstr("the newest checkpoint is of step 1, in saved/checkpoints"));
  const ProgramResult fixed =
      run(train("fixed", {"precision.mode=fp16", "precision.loss_scale=1e30", "precision.max_skips=3"}));
  EXPECT_EQ(fixed.exit_code, 1);
  EXPECT_THAT(fixed.err,
              AllOf(HasSubstr("step 1 is skipped, loss scale 1e+30"), HasSubstr("3 consecutive steps"),
                    HasSubstr("of block 'head', micro-batch 0, on rank 0")));
  EXPECT_EQ(metrics("fixed").size(), 3u);
  const ProgramResult floor =
      run(train("floor", {"precision.mode=fp16", "precision.scale_init=1e30", "precision.min_scale=4e29"}));
  EXPECT_EQ(floor.exit_code, 1);
  EXPECT_THAT(floor.err, HasSubstr("below precision.min_scale"));
  EXPECT_EQ(metrics("floor").size(), 2u);
}

TEST_F(TrainCli, ACheckpointWithoutALossScaleStartsAFreshOne) {
  train_well("run", {"train.steps=3"});
  const ProgramResult result = run(train("run", {"precision.mode=fp16", "precision.scale_init=512"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("the loss scale starts at 512: the checkpoint has none"));
  EXPECT_THAT(result.err, HasSubstr("another precision.mode (\"fp32\", now \"fp16\")"));
  EXPECT_EQ(metrics("run").back()["loss_scale"], 512.0);
}

// Otherwise the advice about a too large scale would not help.
TEST_F(TrainCli, ALossScaleThatIsSetAnewStartsAnew) {
  const ProgramResult stopped = run(train("run", {"precision.mode=fp16", "precision.loss_scale=1e30",
                                                  "precision.max_skips=2", "checkpoint.every=1"}));
  EXPECT_EQ(stopped.exit_code, 1);
  const ProgramResult result =
      run(train("run", {"precision.mode=fp16", "precision.scale_init=512", "precision.max_skips=2"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(metrics("run").back()["loss_scale"], 512.0);
}

TEST_F(TrainCli, ChangesOfTheMathematicsAreNamed) {
  train_well("run", {"train.steps=3"});
  const ProgramResult result = run(train("run", {"optimizer.lr=0.01"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("another optimizer.lr (0.0003, now 0.01)"));
}

TEST_F(TrainCli, DataIsRefusedBeforeStepOne) {
  EXPECT_THAT(refusal(train("run", {"data.train=absent", "model.vocab=256"})), HasSubstr("data.train: "));
  EXPECT_THAT(refusal(train("run", {"data.eval=absent"})), HasSubstr("data.eval: "));
  EXPECT_THAT(refusal(train("run", {"model.vocab=100"})), AllOf(HasSubstr("train.bin"), HasSubstr("100")));
  const std::string shard = testing::read_file(scratch_ / "tokens/train.bin");
  testing::write_file(scratch_ / "cut.bin", shard.substr(0, shard.size() - 1));
  EXPECT_THAT(refusal(train("run", {"data.train=cut.bin", "model.vocab=256"})),
              AllOf(HasSubstr("cut.bin"), HasSubstr("truncated")));
  EXPECT_THAT(refusal(train("run", {"train.global_batch=10"})),
              HasSubstr("train.global_batch = 8 or 12, or"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "run"));
}

TEST_F(TrainCli, OutputFolderIsRefusedBeforeStepOne) {
  EXPECT_THAT(refusal(train("job.toml/run")), HasSubstr("cannot create the output folder job.toml/run"));
  train_well("run");
  EXPECT_THAT(refusal(train("run", {"train.steps=2"})), HasSubstr("beyond train.steps = 2"));
  EXPECT_THAT(refusal(train("run", {"checkpoint.resume=never"})), HasSubstr("holds later checkpoints"));
  EXPECT_THAT(refusal(train("run", {"model.hidden=32"})), HasSubstr("step-000006"));
  EXPECT_THAT(refusal(train("run", {"optimizer.name=sgd"})), HasSubstr("step-000006"));
  EXPECT_THAT(refusal(train("other", {"checkpoint.resume=absent"})), HasSubstr("checkpoint.resume: "));
}

TEST_F(TrainCli, MemoryLimitIsRefusedBeforeStepOne) {
  EXPECT_THAT(refusal(train("run", {"parallel.memory_limit=100KiB"})),
              AllOf(HasSubstr("does not fit"), HasSubstr("parallel.memory_limit")));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "run"));
}

TEST_F(TrainCli, LossThatIsNotFiniteFails) {
  const ProgramResult result = run(train("run", {"optimizer.lr=1e30", "optimizer.grad_clip=0"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("optimizer.lr"));
}

TEST_F(TrainCli, PlannedMemoryIsTheMeasured) {
  int run_number = 0;
  for (const std::vector<std::string>& overrides :
       {std::vector<std::string>{},
        {"parallel.recompute_every=1", "model.layers=3"},
        {"train.micro_batch=1", "optimizer.name=sgd", "parallel.reduction=fast"}}) {
    const std::string out = "run" + std::to_string(run_number++);
    train_well(out, overrides);
    std::vector<std::string> command = {"plan", "job.toml", "--json"};
    for (const std::string& text : overrides) command.insert(command.end(), {"--set", text});
    const ProgramResult planned = run(command);
    ASSERT_EQ(planned.exit_code, 0) << planned.err;
    const json group = json::parse(planned.out)["groups"][0];
    for (json line : metrics(out)) {
      line["memory"].erase("workspace");
      EXPECT_EQ(line["memory"], group["memory"]) << out << " step " << line["step"];
      EXPECT_EQ(line["peak_bytes"], group["peak_bytes"]) << out << " step " << line["step"];
      EXPECT_EQ(line["comm_bytes"], group["comm_bytes"]) << out << " step " << line["step"];
    }
  }
}

TEST_F(TrainCli, SamplesContinueThePrompt) {
  train_well("run");
  const auto sample = [this](std::vector<std::string> more) {
    std::vector<std::string> command = {"sample",   "run", "--prompt",  "stroke ",
                                        "--tokens", "20",  "--threads", "1"};
    command.insert(command.end(), more.begin(), more.end());
    const ProgramResult result = run(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, ::testing::StartsWith("stroke "));
    EXPECT_EQ(result.out.size(), 7u + 20u + 1u);
    return result.out;
  };
  const std::string text = sample({"--seed", "1"});
  EXPECT_EQ(sample({"--seed", "1"}), text);
  EXPECT_NE(sample({"--seed", "2"}), text);
  EXPECT_EQ(sample({"--temperature", "0", "--seed", "1"}), sample({"--top-k", "1", "--seed", "2"}));
  EXPECT_EQ(sample({"--no-cache", "--seed", "1"}), text);
  EXPECT_EQ(sample({"--top-p", "1e-9", "--seed", "3"}), sample({"--temperature", "0"}));
  EXPECT_THAT(refusal({"sample", "run", "--top-p", "0"}), HasSubstr("top_p must be above 0"));
  const std::string stop = text.substr(12, 2);
  const ProgramResult stopped = run({"sample", "run", "--prompt", "stroke ", "--tokens", "20", "--threads",
                                     "1", "--seed", "1", "--stop", stop});
  EXPECT_EQ(stopped.out, text.substr(0, text.find(stop, 7)) + "\n");
  std::ofstream(scratch_ / "prompts.txt") << "stroke \nrow\n";
  const ProgramResult lines =
      run({"sample", "run", "--prompts", "prompts.txt", "--tokens", "20", "--threads", "1", "--seed", "1"});
  std::istringstream objects(lines.out);
  std::string object;
  ASSERT_TRUE(std::getline(objects, object)) << lines.err;
  // An untrained model writes bytes that are not valid UTF-8, which JSON cannot hold.
  const std::string as_text =
      json(text.substr(0, text.size() - 1)).dump(-1, ' ', false, json::error_handler_t::replace);
  EXPECT_EQ(json::parse(object)["text"], json::parse(as_text));
  ASSERT_TRUE(std::getline(objects, object)) << lines.err;
  EXPECT_EQ(json::parse(object)["prompt"], "row");
  EXPECT_FALSE(std::getline(objects, object));
  EXPECT_THAT(refusal({"sample", "run", "--prompts", "absent.txt"}), HasSubstr("absent.txt"));
  EXPECT_THAT(refusal({"sample", "tokens", "--prompt", "x"}), HasSubstr("tokens is not a checkpoint"));
  EXPECT_THAT(refusal({"sample", "absent", "--prompt", "x"}), HasSubstr("absent"));
}

// A byte is a token here, so bits per token are bits per byte.
TEST_F(TrainCli, EvaluatesText) {
  train_well("run");
  const ProgramResult evaluated = run({"eval", "run", "--threads", "1", "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  const auto figures = nlohmann::json::parse(evaluated.out);
  const double loss = figures["loss"];
  EXPECT_DOUBLE_EQ(figures["perplexity"], std::exp(loss));
  EXPECT_NEAR(figures["bits_per_byte"], loss / std::log(2.0), 1e-9);
  EXPECT_GT(figures["top1"], 0.0);
  EXPECT_GE(figures["top5"], figures["top1"]);
  EXPECT_THAT(run({"eval", "run", "--threads", "1"}).out,
              AllOf(HasSubstr("perplexity"), HasSubstr("bits per byte"), HasSubstr("top-1")));
}

// An evaluation uses neither the memory limit nor the layout of the training.
TEST_F(TrainCli, EvaluationsTakeOtherLayouts) {
  const std::string small = "train.micro_batch=1", recompute = "parallel.recompute_every=1";
  const auto plan = json::parse(run({"plan", "job.toml", "--set", small, "--set", recompute, "--json"}).out);
  train_well("run", {small, recompute, "parallel.memory_limit=" + plan["fit"]["peak_bytes"].dump()});
  train_well("scaled", {"train.steps=1", "precision.mode=fp16", "precision.scale_init=1024"});
  EXPECT_EQ(run({"eval", "scaled", "--threads", "1", "--set", "precision.mode=fp32"}).exit_code, 0);
  const auto evaluate = [&](std::vector<std::string> sets) {
    std::vector<std::string> command = {"eval", "run", "--threads", "1", "--json"};
    for (std::string& text : sets) command.insert(command.end(), {"--set", std::move(text)});
    return command;
  };
  const auto loss_of = [&](std::vector<std::string> sets) {
    const ProgramResult result = run(evaluate(std::move(sets)));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? json::parse(result.out)["loss"].get<double>() : 0.0;
  };
  const double loss = loss_of({});
  EXPECT_NEAR(loss_of({"train.micro_batch=64"}), loss, 1e-6);
  EXPECT_EQ(loss_of({"parallel.zero=3", "parallel.memory_limit=1 GiB"}), loss);
  EXPECT_NEAR(loss_of({"precision.mode=bf16", "precision.ops.linear=fp32"}), loss, 0.1);
  const ProgramResult over = run(evaluate({"parallel.memory_limit=1000"}));
  EXPECT_EQ(over.exit_code, 1);
  EXPECT_THAT(over.err, HasSubstr("under the limit of 1000 B"));
  EXPECT_THAT(
      refusal(evaluate({"optimizer.lr=1"})),
      HasSubstr("--set optimizer.lr=1: trireme eval does not take optimizer.lr: an evaluation updates "
                "no weights"));
  for (const std::string key : {"model.layers=2", "train.steps=3", "data.train=tokens",
                                "precision.grad_dtype=bf16", "parallel.recompute_every=1",
                                "parallel.tensor=2", "checkpoint.every=1", "log.every=1", "parallel=auto"}) {
    EXPECT_THAT(refusal(evaluate({key})),
                HasSubstr("trireme eval does not take " + key.substr(0, key.find('='))));
  }
  EXPECT_THAT(refusal(evaluate({"parallel.zeros=1"})), HasSubstr("did you mean parallel.zero?"));
  EXPECT_THAT(refusal(evaluate({"precision.mode=fp8"})), HasSubstr("needs the maxima of a training in fp8"));
}

TEST_F(TrainCli, SubwordRunsSampleWithTheirOwnModel) {
  ASSERT_EQ(run({"data", "text", "text.txt", "--out", "tokens", "--train-tokenizer", "300"}).exit_code, 0);
  train_well("run");
  std::filesystem::remove_all(scratch_ / "tokens");  // the checkpoint holds what sampling needs
  const ProgramResult result =
      run({"sample", "run", "--prompt", "stroke 1", "--tokens", "5", "--threads", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::StartsWith("stroke 1"));
}

}  // namespace
}  // namespace trireme

// The built program: messages, exit codes, files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/launcher/commands/cli_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(Cli, Version) {
  const ProgramResult result = run({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, ::testing::MatchesRegex("trireme [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_F(Cli, Help) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"},
                                                    {"train", "--help"},
                                                    {"data", "text", "--help"},
                                                    {"doctor", "--help"}}) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, HasSubstr("Usage:"));
    EXPECT_EQ(result.err, "");
  }
}

std::vector<std::string> subcommands_in(const std::string& help) {
  std::vector<std::string> names;
  const auto at = help.find("\nSubcommands:\n");
  std::istringstream lines(at == std::string::npos ? "" : help.substr(at + 1));
  std::string line, name;
  std::getline(lines, line);
  while (std::getline(lines, line) && std::istringstream(line) >> name) {
    if (line.starts_with("  ") && line[2] != ' ') names.push_back(name);
  }
  return names;
}

TEST_F(Cli, TheHelpOfEveryCommandEndsWithAnExample) {
  std::vector<std::vector<std::string>> commands = {{}};
  for (std::size_t i = 0; i < commands.size(); ++i) {
    std::vector<std::string> words = commands[i];
    words.emplace_back("--help");
    const std::string help = run(words).out;
    const std::vector<std::string> subcommands = subcommands_in(help);
    std::string name = "trireme";
    for (const std::string& word : commands[i]) name += " " + word;
    for (const std::string& subcommand : subcommands) {
      commands.push_back(commands[i]);
      commands.back().push_back(subcommand);
    }
    if (i == 0) continue;
    const std::string before = help.substr(0, help.find("Example:\n  "));
    ASSERT_LT(before.size(), help.size()) << name;
    std::string example = help.substr(before.size());
    EXPECT_EQ(std::count(example.begin(), example.end(), '\n'), 2) << name;
    EXPECT_THAT(example, HasSubstr(name + " "));
    if (!subcommands.empty()) continue;  // its example is of one of them
    std::istringstream rest(example.substr(std::min(example.size(), example.find(name))));
    for (std::string word; rest >> word;) {
      if (word.starts_with("--")) {
        EXPECT_THAT(before, HasSubstr("\n  " + word)) << name;
      }
    }
  }
  EXPECT_GE(commands.size(), 22u);
}

TEST_F(Cli, PlanGroupsItsOptions) {
  const std::string help = run({"plan", "--help"}).out;
  for (const char* title :
       {"Job and machine:", "Output:", "Picture of a step:", "Search for a layout:", "Scaling and cost:"})
    EXPECT_THAT(help, HasSubstr(std::string("\n") + title + "\n"));
  // Every option but --help has a group.
  const auto ungrouped = help.find("\nOptions:\n");
  ASSERT_NE(ungrouped, std::string::npos);
  const std::string options = help.substr(ungrouped, help.find("\n\n", ungrouped) - ungrouped);
  EXPECT_THAT(options, HasSubstr("\n  -h,--help"));
  EXPECT_THAT(options, ::testing::Not(HasSubstr("\n  --")));
}

// The environment may set small stacks, which end a thread with a segmentation fault.
TEST_F(Cli, SmallStacksOfThreadsAreRaised) {
  const auto restarted = [&](const std::string& setting) {
    return run_program({"sh", "-c", setting + "; exec \"$0\" train --help-keys", TRIREME_BINARY}, scratch_);
  };
  const ProgramResult variable = restarted("export OMP_STACKSIZE=64K");
  EXPECT_EQ(variable.exit_code, 0);
  EXPECT_THAT(variable.err,
              HasSubstr("warning: OMP_STACKSIZE = 64K is too small for the stacks of threads: 2048K"));
  const ProgramResult limit = restarted("ulimit -S -s 1000");
  EXPECT_EQ(limit.exit_code, 0);
  EXPECT_THAT(limit.err, HasSubstr("warning: ulimit -s of 1000 is too small for the stacks of threads: "));
  EXPECT_EQ(restarted("export OMP_STACKSIZE=4M").err, "");
  const ProgramResult refused = restarted("ulimit -s 1000");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("error: ulimit -s is 1000: the stacks of threads would be too small; set it to "
                        "2048 KiB or more"));
}

TEST_F(Cli, BadCommandLines) {
  EXPECT_THAT(refusal({"tarin"}), HasSubstr("unknown command tarin; did you mean train?"));
  EXPECT_THAT(refusal({}), HasSubstr("--help"));
  EXPECT_THAT(refusal({"train"}), HasSubstr("no job file was given"));
  EXPECT_THAT(refusal({"train", "a.toml", "--sat", "x"}), HasSubstr("--sat"));
  EXPECT_THAT(refusal({"data", "text", "a.txt"}), HasSubstr("--out is required"));
}

TEST_F(Cli, OutputThatCannotBeWrittenIsAFailure) {
  const ProgramResult doctor =
      run_program({"/bin/sh", "-c", "exec " TRIREME_BINARY " doctor --no-measure >/dev/full"}, scratch_);
  EXPECT_EQ(doctor.exit_code, 1);
  EXPECT_THAT(doctor.err, HasSubstr("standard output cannot be written: No space left on device"));
}

// Without a handler, exceeding the file size limit kills the process without a message.
TEST_F(Cli, AFileAboveTheLimitOfSizesIsAnError) {
  testing::write_file(scratch_ / "job.toml",
                      "[model]\nlayers = 2\nhidden = 64\nheads = 2\nvocab = 64\nseq_len = 16\n"
                      "[data]\nkind = \"synthetic\"\n[train]\nsteps = 2\nglobal_batch = 2\nmicro_batch = 2\n"
                      "[parallel]\nthreads = 1\n");
  const ProgramResult result = run_program(
      {"/bin/sh", "-c", "ulimit -f 100; exec " TRIREME_BINARY " train job.toml --out out"}, scratch_);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("File too large"));
}

TEST_F(Cli, DoctorCountsAndTimesTheCallsOfAStep) {
  testing::write_file(scratch_ / "job.toml",
                      "[model]\nlayers = 2\nhidden = 32\nheads = 2\nvocab = 64\nseq_len = 16\n"
                      "[data]\nkind = \"synthetic\"\n[train]\nglobal_batch = 8\nmicro_batch = 2\n");
  const ProgramResult table = run({"doctor", "--roofline", "job.toml"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("\none block of 2 (blocks.0 to blocks.1)\n"));
  EXPECT_THAT(table.out, ::testing::ContainsRegex("\nH200: [0-9.]+ ms a step, [0-9]+ tokens/s\n"));
  const ProgramResult json = run({"doctor", "--roofline", "job.toml", "--json"});
  EXPECT_TRUE(nlohmann::json::accept(json.out)) << json.err;
  const ProgramResult engines =
      run({"doctor", "--engines", "job.toml", "--json", "--set", "parallel.threads=1"});
  EXPECT_EQ(engines.exit_code, 0) << engines.err;
  std::istringstream lines(engines.out);
  std::set<std::string> calls;
  for (std::string line; std::getline(lines, line);) {
    const auto call = nlohmann::json::parse(line);
    EXPECT_GT(call["us"].get<double>(), 0.0) << line;
    EXPECT_GT(call["first_ms"].get<double>(), 0.0) << line;
    calls.insert(call["call"].get<std::string>());
  }
  EXPECT_THAT(calls, ::testing::IsSupersetOf(
                         {"matmul", "attention_fwd", "attention_bwd", "layer_norm_bwd", "adamw"}));
  EXPECT_THAT(refusal({"doctor", "--engines", "none.toml"}), HasSubstr("none.toml"));
  EXPECT_THAT(refusal({"doctor", "--roofline", "none.toml"}), HasSubstr("none.toml"));
  EXPECT_THAT(refusal({"doctor", "--roofline", "job.toml", "--set", "model.name=\"nosuch\""}),
              HasSubstr("model.name = \"nosuch\" is out of range"));
  EXPECT_THAT(refusal({"doctor", "--roofline", "job.toml", "--set", "parallel.pipeline=2"}),
              HasSubstr("parallel.pipeline = 2: add --set parallel.pipeline=1"));
  EXPECT_THAT(refusal({"doctor", "--set", "a=b"}), HasSubstr("--roofline"));
}

TEST_F(Cli, PlanDrawsATimeline) {
  testing::write_file(scratch_ / "job.toml",
                      "[model]\nlayers = 2\nhidden = 32\nheads = 2\nvocab = 64\nseq_len = 16\n"
                      "[data]\nkind = \"synthetic\"\n[train]\nglobal_batch = 8\nmicro_batch = 2\n");
  const std::vector<std::string> command = {"plan", "job.toml", "--ranks", "2", "--times", "times.json"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    return more;
  };
  const ProgramResult drawn = run(with({"--timeline", "step.svg"}));
  EXPECT_EQ(drawn.exit_code, 0) << drawn.err;
  EXPECT_THAT(drawn.out, HasSubstr("\nstep.svg, simulated: forward and backward of a step take "));
  EXPECT_THAT(testing::read_file(scratch_ / "step.svg"), StartsWith("<svg "));
  const std::string times = testing::read_file(scratch_ / "times.json");
  const ProgramResult traced = run(with({"--timeline", "step.json", "--json"}));
  EXPECT_EQ(traced.exit_code, 0) << traced.err;
  EXPECT_TRUE(nlohmann::json::accept(traced.out));
  EXPECT_TRUE(nlohmann::json::accept(testing::read_file(scratch_ / "step.json")));
  EXPECT_EQ(testing::read_file(scratch_ / "times.json"), times);
  EXPECT_THAT(refusal(with({"--timeline", "other.svg", "--set", "train.micro_batch=1"})),
              HasSubstr("--times times.json: it was measured with train.micro_batch = 2, not 1; remove it"));
  EXPECT_THAT(refusal(with({"--timeline", "step.svg"})),
              HasSubstr("--timeline step.svg: the file is there already; name another, or replace it with"));
  EXPECT_THAT(refusal(with({"--timeline", "step.png"})), HasSubstr("something.svg"));
  EXPECT_THAT(refusal({"plan", "job.toml", "--timeline", "one.json", "--times", "./one.json"}),
              HasSubstr("--timeline one.json and --times ./one.json name one file"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "one.json"));
  testing::write_file(scratch_ / "two.json", "{}");
  std::filesystem::create_symlink("two.json", scratch_ / "link.json");
  EXPECT_THAT(refusal({"plan", "job.toml", "--timeline", "two.json", "--times", "link.json"}),
              HasSubstr("name one file"));
  EXPECT_THAT(refusal(with({"--timeline", ""})), HasSubstr("--timeline needs the name of a file, not \"\""));
  EXPECT_THAT(refusal(with({})),
              HasSubstr("--times times.json is about how long blocks take: it needs --timeline"));
  EXPECT_THAT(refusal({"plan", "job.toml", "--timeline", "no/such/step.svg"}),
              HasSubstr("--timeline no/such/step.svg: there is no folder no/such; make it first"));
  EXPECT_THAT(refusal({"plan", "job.toml", "--timeline", "other.svg", "--times", "."}),
              HasSubstr("--times .: is a folder"));
  EXPECT_THAT(refusal(with({"--timeline", "other.svg", "--set", "parallel.threads=77"})),
              HasSubstr("thread(s), not the 77 of a rank here"));
  const ProgramResult stages = run(with({"--timeline", "stages.svg", "--set", "parallel.pipeline=2", "--set",
                                         "parallel.pipeline_cut=measured"}));
  EXPECT_EQ(stages.exit_code, 0) << stages.err;
  EXPECT_THAT(stages.out, ::testing::ContainsRegex("\n  1 +1 +[0-9].* head +[0-9.]+ % "));
  EXPECT_THAT(stages.out, HasSubstr("time measured on cpu, "));
  EXPECT_THAT(stages.out, ::testing::Not(HasSubstr("measured just now")));
  EXPECT_THAT(run({"plan", "job.toml", "--ranks", "2", "--set", "parallel.pipeline=2", "--set",
                   "parallel.pipeline_cut=measured"})
                  .out,
              ::testing::AllOf(HasSubstr("these times were measured just now"),
                               HasSubstr("--times OUT/block_times.json")));
  EXPECT_THAT(testing::read_file(scratch_ / "stages.svg"), HasSubstr(">1f1b: 2 stages on 2 rank(s), "));
}

TEST_F(Cli, PlanShowsAScreenAndDetailsOnRequest) {
  testing::write_file(scratch_ / "job.toml",
                      "[model]\nlayers = 2\nhidden = 32\nheads = 2\nvocab = 64\nseq_len = 16\n"
                      "[data]\nkind = \"synthetic\"\n[train]\nglobal_batch = 8\nmicro_batch = 2\n");
  const auto plan = [&](std::vector<std::string> more) {
    std::vector<std::string> command = {"plan", "job.toml", "--ranks", "2"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  const std::string screen = run(plan({})).out;
  EXPECT_THAT(screen, HasSubstr("layout: 2 ranks"));
  EXPECT_THAT(screen, ::testing::Not(HasSubstr("Forward")));
  const std::string memory = run(plan({"--memory"})).out, actions = run(plan({"--actions"})).out;
  EXPECT_THAT(memory, HasSubstr("ranks 0-1: "));
  EXPECT_THAT(actions, HasSubstr("ranks 0-1: "));
  EXPECT_THAT(actions, HasSubstr("  Forward unit 0 (embedding) micro-batch 0\n"));
  const std::string both = run(plan({"--rank", "1"})).out;
  EXPECT_EQ(both,
            run(plan({"--rank", "1", "--memory"})).out + "\n" + run(plan({"--rank", "1", "--actions"})).out);
  EXPECT_THAT(refusal(plan({"--rank", "2"})), HasSubstr("--rank 2 is none of the 2 rank(s)"));
  EXPECT_THAT(refusal(plan({"--json", "--memory"})), HasSubstr("--json"));
}

TEST_F(Cli, AWarmUpAsLongAsTheRunIsRefused) {
  testing::write_file(scratch_ / "job.toml",
                      "[model]\nlayers = 2\nhidden = 32\nheads = 2\nvocab = 64\nseq_len = 16\n"
                      "[data]\nkind = \"synthetic\"\n[train]\nsteps = 2\nglobal_batch = 8\nmicro_batch = 2\n"
                      "[optimizer]\nwarmup_steps = 2\n[parallel]\nthreads = 1\n");
  for (const char* command : {"train", "plan"}) {
    EXPECT_THAT(refusal({command, "job.toml"}), HasSubstr("optimizer.warmup_steps = 2 leaves none of"));
  }
  const ProgramResult constant = run({"train", "job.toml", "--set", "optimizer.schedule=constant"});
  EXPECT_EQ(constant.exit_code, 0) << constant.err;
  EXPECT_THAT(constant.err,
              HasSubstr("warning: optimizer.warmup_steps = 2: all of train.steps = 2 are warm-up"));
}

// For scripts: the exit code is the same as `train`'s.
TEST_F(Cli, PlanOfAJobThatDoesNotFitExitsWith2) {
  testing::write_file(scratch_ / "job.toml",
                      "[model]\nlayers = 2\nhidden = 32\nheads = 2\nvocab = 64\nseq_len = 16\n"
                      "[data]\nkind = \"synthetic\"\n[train]\nglobal_batch = 8\nmicro_batch = 2\n");
  const ProgramResult planned = run({"plan", "job.toml", "--set", "parallel.memory_limit=20KiB"});
  EXPECT_EQ(planned.exit_code, 2);
  EXPECT_THAT(planned.out, HasSubstr("the job does not fit: "));
}

TEST_F(Cli, PlansForGpus) {
  const std::string batch = "[data]\nkind = \"synthetic\"\n[train]\nglobal_batch = 8\nmicro_batch = 2\n";
  testing::write_file(scratch_ / "resnet.toml", "[model]\nname = \"resnet20\"\n" + batch);
  testing::write_file(scratch_ / "gpt.toml",
                      "[model]\nlayers = 2\nhidden = 32\nheads = 2\nvocab = 64\nseq_len = 16\n" + batch);
  const ProgramResult planned = run({"plan", "resnet.toml", "--set", "parallel.device=cuda"});
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
  const std::vector<std::string> stages = {
      "plan", "gpt.toml", "--ranks", "2", "--set", "parallel.device=cuda", "--set", "parallel.pipeline=2"};
  EXPECT_EQ(run(stages).exit_code, 0);
  std::vector<std::string> recorded = stages;
  recorded.insert(recorded.end(), {"--set", "parallel.cuda_graph=true"});
  recorded.insert(recorded.end(), {"--set", "model.dropout=0.1"});
  EXPECT_EQ(run(recorded).exit_code, 0);
}

TEST_F(Cli, HelpKeysListsThem) {
  const ProgramResult result = run({"train", "--help-keys"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("- `global_batch` (integer, default `32`; "));
}

TEST_F(Cli, BadJobs) {
  const std::string job = (scratch_ / "job.toml").string();
  testing::write_file(job, "[model]\nsize = \"124m\"\n[data]\ntrain = \"x\"\n");
  EXPECT_THAT(refusal({"train", "absent.toml"}), HasSubstr("absent.toml: No such file"));
  EXPECT_THAT(refusal({"train", job, "--set", "train.stesp=1"}), HasSubstr("did you mean train.steps?"));
  EXPECT_THAT(refusal({"train", "--set", "train.steps=x", job}), HasSubstr("needs an integer"));
  EXPECT_THAT(refusal({"train", job, "--set", "precision.mode=fp4"}), HasSubstr("\"fp16\", \"bf16\""));
  EXPECT_THAT(refusal({"train", job, "--set", "precision.ops={atention=\"fp32\"}"}),
              HasSubstr("no op 'atention'; did you mean 'attention'?"));
  EXPECT_THAT(refusal({"train", job, "--set", "train.global_batch=10"}),
              HasSubstr("train.global_batch = 8 or 16, or"));
  testing::write_file(scratch_ / "typo.toml", "[model]\nsize = \"124m\"\n[trian]\n");
  EXPECT_THAT(refusal({"train", "typo.toml"}),
              StartsWith("trireme: error: typo.toml:3:2: unknown section [trian]"));
}

TEST_F(Cli, DataText) {
  testing::write_file(scratch_ / "text/a.txt", std::string(900, 'a'));
  testing::write_file(scratch_ / "text/b.txt", std::string(98, 'b'));
  const ProgramResult result = run({"data", "text", "text", "--out", "tokens"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // 998 bytes, and an empty line between the documents.
  EXPECT_THAT(result.out,
              StartsWith("tokens: 900 training and 100 evaluation tokens, vocabulary 256 (bytes)"));
  EXPECT_EQ(testing::read_file(scratch_ / "tokens/train.bin").size(), 1024u + 2 * 900);
  EXPECT_EQ(testing::read_file(scratch_ / "tokens/eval.bin").size(), 1024u + 2 * 100);

  EXPECT_THAT(refusal({"data", "text", "absent", "--out", "tokens"}), HasSubstr("absent"));
  EXPECT_THAT(refusal({"data", "text", "text", "--out", "text/a.txt/x"}), HasSubstr("text/a.txt/x"));
}

TEST_F(Cli, DataTextTrainsATokenizer) {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += "the rowers pull, the rowers rest, number " + std::to_string(i) + "\n";
  testing::write_file(scratch_ / "a.txt", text);
  const ProgramResult result = run({"data", "text", "a.txt", "--out", "tokens", "--train-tokenizer", "320"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("vocabulary 320 (sentencepiece)"));
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "tokens/tokenizer.model"));
}

TEST_F(Cli, DoctorJson) {
  const ProgramResult result = run({"doctor", "--json", "--no-measure"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(nlohmann::json::parse(result.out).contains("backends"));
}

}  // namespace
}  // namespace trireme

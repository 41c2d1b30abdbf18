// trireme checkpoint: output for whole, damaged, different and old checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/launcher/commands/cli_fixture.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckpointCli : public Cli {
 protected:
  void SetUp() override {
    testing::write_file(
        scratch_ / "job.toml",
        "[model]\nlayers = 1\nhidden = 16\nheads = 2\nvocab = 32\nseq_len = 8\n[data]\nkind = \"synthetic\"\n"
        "[train]\nsteps = 4\nglobal_batch = 4\nmicro_batch = 4\n[optimizer]\nschedule = \"constant\"\n"
        "[checkpoint]\nevery = 1\nkeep = 0\n[parallel]\nthreads = 1\n");
    train("run");
  }
  void train(const std::string& out, const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = {"train", "job.toml", "--out", out};
    command.insert(command.end(), more.begin(), more.end());
    const ProgramResult result = run(command);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  ProgramResult checkpoint(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "checkpoint");
    return run(arguments);
  }
  std::filesystem::path folder(int step) const {
    return scratch_ / "run" / "checkpoints" / ("step-00000" + std::to_string(step));
  }
};

TEST_F(CheckpointCli, ADamagedTensorIsNamed) {
  const std::filesystem::path file = folder(4) / "model.safetensors";
  std::string bytes = testing::read_file(file);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 4);
  testing::write_file(file, bytes);
  const ProgramResult result = checkpoint({"verify", "run"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("model.safetensors was changed after it was written"),
                                HasSubstr("; changed: 'head.norm.weight'\n"), HasSubstr("whole\n")));
}

TEST_F(CheckpointCli, DiffSaysWhatIsDifferent) {
  const ProgramResult same = checkpoint({"diff", "run", folder(4).string()});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("step-000004:\nthe same: settings, tensors and values\n"));
  EXPECT_THAT(same.out, ::testing::StartsWith("run/checkpoints/step-000004 and "));
  train("other", {"--set", "train.seed=2"});
  const ProgramResult other = checkpoint({"diff", "run", "other"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.out, AllOf(HasSubstr("train.seed (1, now 2)\n"), Not(HasSubstr("step (")),
                               HasSubstr("model.safetensors: head.norm.weight: "),
                               HasSubstr(" of 16 values differ, by ")));
  const ProgramResult earlier = checkpoint({"diff", folder(3).string(), folder(4).string()});
  EXPECT_THAT(earlier.out,
              AllOf(HasSubstr("step (3, now 4)\n"), HasSubstr("optimizer.safetensors: exp_avg.")));
  train("wide", {"--set", "model.hidden=32"});
  EXPECT_THAT(checkpoint({"diff", "run", "wide"}).out,
              AllOf(HasSubstr("model.hidden (16, now 32)\n"),
                    HasSubstr("head.norm.weight: F32 [16], and F32 [32]\n")));
  train("deep", {"--set", "model.layers=2"});
  EXPECT_THAT(checkpoint({"diff", "run", "deep"}).out, HasSubstr(": only in deep/checkpoints/step-000004\n"));
  EXPECT_EQ(checkpoint({"diff", "run", "nowhere"}).exit_code, 2);
}

TEST_F(CheckpointCli, OtherPathsAreRefusedByWhatTheyAre) {
  testing::write_file(scratch_ / "file", "x");
  EXPECT_THAT(checkpoint({"verify", "file"}).err, HasSubstr("file is a file: name a checkpoint"));
  EXPECT_THAT(checkpoint({"list", "nowhere"}).err, HasSubstr("there is no nowhere"));
  const ProgramResult one = checkpoint({"prune", folder(4).string(), "--keep", "1"});
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_THAT(one.err, HasSubstr("is one checkpoint: name the output folder of its run"));
}

TEST_F(CheckpointCli, PruneKeepsTheNewestAndWhatIsDamaged) {
  std::filesystem::remove(folder(1) / "model.safetensors");
  const ProgramResult result = checkpoint({"prune", "run", "--keep", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("step-000002  removed\n"));
  EXPECT_THAT(result.out, HasSubstr("step-000003  kept\n"));
  EXPECT_THAT(result.err, HasSubstr("ignoring damaged checkpoint"));
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder(1).parent_path()))
    left.insert(entry.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{"step-000001", "step-000003", "step-000004"}));
  EXPECT_NE(checkpoint({"prune", "run", "--keep", "0"}).exit_code, 0);
  EXPECT_NE(checkpoint({"prune", "run"}).exit_code, 0);
}

TEST_F(CheckpointCli, ControlCharactersOfNamesAreEscaped) {
  const std::string name = "a\x1b]0;title\x07\u009b2J\u202e\nhidden",
                    shown = "a\\x1b]0;title\\x07\\u009b2J\\u202e\\nhidden";
  std::filesystem::rename(scratch_ / "run", scratch_ / name);
  std::filesystem::remove(scratch_ / name / "checkpoints/step-000002/model.safetensors");
  testing::write_file(scratch_ / "texts" / name, "some text to read");
  testing::write_file(scratch_ / "labels", "a\tone\nb\ttwo\n");
  const auto out = [&](const std::string& file) { return (scratch_ / "out" / (name + file)).string(); };
  const std::vector<std::string> commands[] = {
      {"checkpoint", "list", name},
      {"checkpoint", "verify", name},
      {"checkpoint", "diff", name, name + "/checkpoints/step-000003"},
      {"checkpoint", "prune", name, "--keep", "1"},
      {"eval", name, "--threads", "1"},
      {"export", name, "--out", out(".safetensors")},
      {"report", name, "--out", out(".html")},
      {"top", name, "--once"},
      {"train", "job.toml", "--out", out("run")},
      {"plan", "job.toml", "--timeline", out(".svg")},
      {"data", "text", "texts", "--out", out("text")},
      {"data", "documents", "labels", "--out", out("documents")},
  };
  std::filesystem::create_directory(scratch_ / "out");
  for (const std::vector<std::string>& command : commands) {
    const ProgramResult result = run(command);
    for (const std::string& text : {result.out, result.err})
      for (const char* raw : {"\x1b", "\x07", "\u009b", "\u202e", "\nhidden"})
        EXPECT_EQ(text.find(raw), std::string::npos) << command[0] << " " << command[1] << ": " << text;
    EXPECT_THAT(result.out, HasSubstr(shown)) << command[0] << " " << command[1] << ": " << result.err;
  }
  const ProgramResult json = run({"eval", name, "--threads", "1", "--json"});
  EXPECT_EQ(json.out.find("\u202e"), std::string::npos) << json.out;
  EXPECT_EQ(nlohmann::json::parse(json.out)["checkpoint"], name + "/checkpoints/step-000004") << json.err;
}

// The model's 32 tokens are the first 32 bytes. A pipe or a file gets them unchanged.
TEST_F(CheckpointCli, SamplesReachAFileUnchanged) {
  const ProgramResult sample = run(
      {"sample", "run", "--tokenizer", "bytes", "--prompt", "\x1b\x07", "--tokens", "1", "--threads", "1"});
  EXPECT_EQ(sample.exit_code, 0) << sample.err;
  EXPECT_TRUE(sample.out.starts_with("\x1b\x07")) << sample.out;
  EXPECT_EQ(sample.out.size(), 4U);
}

TEST_F(CheckpointCli, PruneFollowsNoLinkOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a link to another user";
  constexpr uid_t kNobody = 65534;
  std::filesystem::create_directory(scratch_ / "theirs");
  std::filesystem::create_directory_symlink("../run/checkpoints", scratch_ / "theirs/checkpoints");
  std::filesystem::create_directory_symlink("run", scratch_ / "link");
  for (const char* link : {"theirs/checkpoints", "link"})
    ASSERT_EQ(::lchown((scratch_ / link).c_str(), kNobody, kNobody), 0);
  for (const char* place : {"theirs", "theirs/checkpoints", "link"}) {
    const ProgramResult result = checkpoint({"prune", place, "--keep", "1"});
    EXPECT_EQ(result.exit_code, 2) << place;
    EXPECT_THAT(result.err, HasSubstr("belongs to another user")) << place;
  }
  EXPECT_TRUE(std::filesystem::exists(folder(1)));
}

// A file of the right size with a changed byte is not whole. Every checkpoint that is kept can be resumed
// from.
TEST_F(CheckpointCli, PruneReadsWhatItKeeps) {
  const std::filesystem::path file = folder(4) / "model.safetensors";
  std::string bytes = testing::read_file(file);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 4);
  testing::write_file(file, bytes);
  const ProgramResult result = checkpoint({"prune", "run", "--keep", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("step-000002  removed\n"));
  EXPECT_THAT(result.out, HasSubstr("step-000003  kept\n"));
  EXPECT_THAT(result.err, HasSubstr("step-000004"));
  EXPECT_EQ(checkpoint({"verify", folder(3).string()}).exit_code, 0);
  EXPECT_EQ(checkpoint({"prune", folder(3).string(), "--keep", "1"}).exit_code, 2);  // not a run
}

}  // namespace
}  // namespace trireme

// Runs with checkpoint.partner resume from the memory of hosts if it is newer and belongs to the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "launcher/train/trainer.h"
#include "parallel/comm/local.h"
#include "runtime/data/token_file.h"
#include "tests/launcher/partner/partner_job.h"
#include "tests/support/log_capture.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

/// The exit code and the warnings of a run of two ranks on one host.
struct Ended {
  ExitCode code = ExitCode::kDone;
  std::string words;
};
Ended run_job(const JobConfig& config, const fs::path& out) {
  const StopRequest stop;
  Ended ended;
  const testing::LogCapture log;
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    RunOptions options;
    options.config = config;
    options.blocks = build_blocks(config.model);
    options.out = out;
    options.comm = comm;
    const ExitCode code = Trainer(start_run(std::move(options)), stop).run();
    if (comm->rank() == 0) ended.code = code;
  });
  ended.words = log.text();
  return ended;
}

class PartnerRuns : public ::testing::TestWithParam<bool> {
 protected:
  JobConfig job() const {
    JobConfig config = testing::partner_job();
    config.checkpoint.partner_folder = (memory_ / "memory").string();
    config.checkpoint.background = GetParam();
    return config;
  }
  /// Runs until the time limit stops it after one step.
  void run_a_step() const {
    JobConfig config = job();
    config.train.max_minutes = 1e-9;
    EXPECT_EQ(run_job(config, out()).code, ExitCode::kStopped);
  }
  fs::path out() const { return memory_ / "out"; }
  RunState newest_state(const fs::path& run) const {
    return read_run_state(*CheckpointStore(run / "checkpoints").latest(Verify::kChecksums));
  }
  std::string hash(const fs::path& run) const { return newest_state(run).state_hash; }
  std::string undisturbed() const {
    JobConfig config = testing::partner_job();
    config.checkpoint.partner = false;
    run_job(config, memory_ / "undisturbed");
    return hash(memory_ / "undisturbed");
  }
  fs::path tokens() const { return memory_ / "tokens.bin"; }
  void write_tokens(int step) const {
    std::vector<std::int32_t> ids(2000);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i) * step % 61;
    TokenFileWriter writer(tokens(), kTokens16);
    writer.append(ids);
    writer.commit();
  }
  std::ptrdiff_t num_copies() const {
    return std::ranges::count_if(fs::recursive_directory_iterator(memory_ / "memory"),
                                 [](const auto& entry) { return entry.path().extension() == ".shard"; });
  }
  testing::TemporaryFolder memory_;
};

TEST_P(PartnerRuns, GoOnWithTheFileSystemGone) {
  run_a_step();
  EXPECT_EQ(num_copies(), 2);
  fs::remove_all(out());
  const Ended ended = run_job(job(), out());
  EXPECT_THAT(ended.words, HasSubstr("going on from the checkpoint of step 1 in the memory of "));
  EXPECT_THAT(ended.words, HasSubstr("has no whole checkpoint"));
  EXPECT_EQ(hash(out()), undisturbed());
  EXPECT_EQ(newest_state(out()).data.samples, 48);
  EXPECT_EQ(newest_state(out()).spikes, newest_state(memory_ / "undisturbed").spikes);
  EXPECT_EQ(newest_state(out()).spikes->loss.values.size(), 6u) << "a step was done in another folder";
  EXPECT_EQ(num_copies(), 0) << "a run that is done needs none";
}

TEST_P(PartnerRuns, GoOnWithDamagedFiles) {
  run_a_step();
  testing::damage(out() / "checkpoints/step-000001/model.safetensors");
  run_a_step();  // from memory
  for (const auto& step : fs::directory_iterator(out() / "checkpoints"))
    testing::damage(step.path() / "model.safetensors");
  for (const auto& entry : fs::recursive_directory_iterator(memory_ / "memory"))
    if (entry.path().extension() == ".shard") testing::damage(entry.path());
  JobConfig config = job();
  EXPECT_THAT(testing::message_of([&] { run_job(config, out()); }), HasSubstr("all of them are damaged"));
}

TEST_P(PartnerRuns, PassOverCopiesOfAnotherJob) {
  run_a_step();
  fs::remove_all(out());
  JobConfig other = job();
  other.optimizer.lr *= 2;
  EXPECT_THAT(run_job(other, out()).words,
              HasSubstr("the output folder is new, and the job is another: optimizer.lr"));
  EXPECT_NE(hash(out()), undisturbed());
}

TEST_P(PartnerRuns, PassOverCopiesOfOtherData) {
  write_tokens(3);
  JobConfig config = job();
  config.data = {.kind = DataKind::kTokens, .train = tokens().string()};
  config.train.max_minutes = 1e-9;
  EXPECT_EQ(run_job(config, out()).code, ExitCode::kStopped);
  fs::remove_all(out());
  write_tokens(5);
  config.train.max_minutes = 0;
  EXPECT_THAT(run_job(config, out()).words, Not(HasSubstr("going on from")));
  const std::string with_copies = hash(out());
  config.checkpoint.partner = false;
  run_job(config, memory_ / "undisturbed");
  EXPECT_EQ(with_copies, hash(memory_ / "undisturbed"));
}

TEST_P(PartnerRuns, PassOverCopiesOfAnotherRun) {
  run_a_step();
  std::ofstream(out() / "run_id") << "another\n";
  fs::remove_all(out() / "checkpoints");
  EXPECT_THAT(run_job(job(), out()).words, HasSubstr("it is of another run with this output folder"));
  EXPECT_EQ(hash(out()), undisturbed());
}

// The run continues without the copies, which then do not belong to it any more.
TEST_P(PartnerRuns, PassOverCopiesOfBeforeARunWithoutThem) {
  run_a_step();
  JobConfig without = job();
  without.checkpoint.partner = false;
  without.train.max_minutes = 1e-9;
  EXPECT_EQ(run_job(without, out()).code, ExitCode::kStopped);
  fs::remove_all(out() / "checkpoints");
  EXPECT_EQ(num_copies(), 2);
  EXPECT_THAT(run_job(job(), out()).words, HasSubstr("it is of another run with this output folder"));
  EXPECT_EQ(hash(out()), undisturbed());
}

TEST_P(PartnerRuns, PassOverCopiesOfBeforeAStepBack) {
  run_a_step();
  run_a_step();
  const testing::TemporaryFolder kept;
  fs::copy(memory_ / "memory", kept.path() / "memory", fs::copy_options::recursive);
  fs::remove_all(out() / "checkpoints/step-000002");
  JobConfig back = job();
  back.train.max_minutes = 1e-9;
  back.checkpoint.resume = {.kind = Resume::Kind::kCheckpoint,
                            .path = (out() / "checkpoints/step-000001").string()};
  back.optimizer.lr *= 2;
  EXPECT_EQ(run_job(back, out()).code, ExitCode::kStopped);
  fs::remove_all(memory_ / "memory");  // another host has the restored step's copies, this one older copies
  fs::copy(kept.path() / "memory", memory_ / "memory", fs::copy_options::recursive);
  fs::remove_all(out() / "checkpoints");
  EXPECT_THAT(run_job(job(), out()).words, HasSubstr("it is of another run with this output folder"));
}

TEST_P(PartnerRuns, StopBeforeLaterCheckpointsAsWithoutThem) {
  run_a_step();
  run_a_step();
  JobConfig config = job();
  config.train.steps = 1;
  EXPECT_THAT(testing::message_of([&] { run_job(config, out()); }), HasSubstr("beyond train.steps = 1"));
  EXPECT_EQ(num_copies(), 2);
}

TEST_P(PartnerRuns, DoNotBeginAnewWhereACopyIsDamaged) {
  run_a_step();
  fs::remove_all(out() / "checkpoints");
  for (const auto& entry : fs::recursive_directory_iterator(memory_ / "memory"))
    if (entry.path().extension() == ".shard") testing::damage(entry.path());
  EXPECT_THAT(
      testing::message_of([&] { run_job(job(), out()); }),
      HasSubstr("is damaged, and " + (out() / "checkpoints").string() + " has no checkpoint: mend that"));
  EXPECT_EQ(num_copies(), 2);
}

TEST_P(PartnerRuns, BeginAnewWhereTheyAreToldTo) {
  run_a_step();
  fs::remove_all(out());
  JobConfig config = job();
  config.checkpoint.resume.kind = Resume::Kind::kNever;
  const Ended ended = run_job(config, out());
  EXPECT_THAT(ended.words, Not(HasSubstr("going on from")));
  EXPECT_EQ(hash(out()), undisturbed());
}

TEST_P(PartnerRuns, NameAFolderThatCannotBeWritten) {
  JobConfig config = job();
  std::ofstream(memory_ / "memory") << "a file";
  EXPECT_THAT(testing::message_of([&] { run_job(config, out()); }),
              HasSubstr("checkpoint.partner_folder = \"" + config.checkpoint.partner_folder +
                        "\": cannot write into "));
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, PartnerRuns, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "InTheBackground" : "AtOnce"; });

}  // namespace
}  // namespace trireme

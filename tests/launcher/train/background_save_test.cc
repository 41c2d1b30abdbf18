// checkpoint.background: the same checkpoints, evaluations and retention as without it; checkpoints are
// atomic.
#include "launcher/train/background_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "launcher/host/agreement.h"
#include "launcher/host/machine.h"
#include "launcher/train/shared_output.h"
#include "launcher/train/trainer.h"
#include "parallel/comm/local.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Progress = BackgroundSave::Progress;

constexpr int kRanks = 2;

JobConfig job(bool background) {
  JobConfig config{
      .data = {.kind = DataKind::kSynthetic, .eval = "synthetic too"},
      .train = {.steps = 7, .global_batch = 8, .micro_batch = 2, .eval_every = 2, .eval_batches = 1}};
  config.model = {.layers = 2, .hidden = 32, .heads = 2, .vocab = 61, .seq_len = 16};
  config.optimizer.schedule = LrSchedule::Kind::kConstant;  // independent of the number of steps
  config.parallel.threads = 1;
  config.checkpoint = {.every = 2, .keep = 2, .verify_every = 3, .background = background};
  return config;
}

/// Runs a whole job on several ranks.
void run_job(const JobConfig& config, const fs::path& out) {
  const StopRequest stop;
  run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
    RunOptions options;
    options.config = config;
    options.blocks = build_blocks(config.model);
    options.out = out;
    options.comm = comm;
    EXPECT_EQ(Trainer(start_run(std::move(options)), stop).run(), ExitCode::kDone);
  });
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

TEST(BackgroundSave, ARunLeavesTheCheckpointsOfOneInTheForeground) {
  const testing::TemporaryFolder folder;
  for (const bool background : {false, true}) {
    const fs::path out = folder / (background ? "background" : "foreground");
    run_job(job(background), out);
    EXPECT_THAT(entries(out / "checkpoints"), ElementsAre("step-000006", "step-000007"));
  }
  for (const char* step : {"step-000006", "step-000007"}) {
    const fs::path place = fs::path("checkpoints") / step;
    const Checkpoint one = open_checkpoint(folder / "foreground" / place, Verify::kChecksums);
    const Checkpoint other = open_checkpoint(folder / "background" / place, Verify::kChecksums);
    EXPECT_EQ(one.manifest.files, other.manifest.files);
    for (const CheckpointFile& file : one.manifest.files) {
      EXPECT_TRUE(testing::read_file(one.folder / file.name) == testing::read_file(other.folder / file.name));
    }
    const RunState state = read_run_state(one), background = read_run_state(other);
    EXPECT_EQ(state.state_hash, background.state_hash);
    EXPECT_EQ(state.loss, background.loss);
    EXPECT_EQ(state.eval_loss, background.eval_loss);
    EXPECT_FALSE(background.evaluation_due);
  }
}

TEST(BackgroundSave, AnUninterruptedStateComesFromAResumedOne) {
  const testing::TemporaryFolder folder;
  run_job(job(true), folder / "whole");
  JobConfig config = job(true);
  config.train.steps = 5;
  run_job(config, folder / "resumed");
  fs::remove_all(folder / "resumed/checkpoints/step-000005");
  config.train.steps = 7;
  run_job(config, folder / "resumed");  // from step 4, which a thread wrote
  const auto hash = [&](const char* run) {
    return read_run_state(open_checkpoint(folder / run / "checkpoints/step-000007", Verify::kChecksums))
        .state_hash;
  };
  EXPECT_EQ(hash("resumed"), hash("whole"));
}

/// Steps through a background save. The body runs on each of two ranks.
class Saving {
 public:
  Saving(const std::shared_ptr<Communicator>& comm, const testing::TemporaryFolder& folder)
      : engine_(build_gpt(testing::tiny_gpt_config()), comm,
                {.global_batch = 4, .micro_batch = 2, .snapshots = true}),
        store_(folder.path()),
        save_(engine_) {
    engine_.set_steps_done(3);
    RunState state{.step = 3, .state_hash = "00aa"};
    state.config = job(true);
    save_.start(store_, state, std::nullopt, std::chrono::steady_clock::now());
  }
  bool is_first() const { return engine_.communicator().rank() == 0; }
  BackgroundSave& save() { return save_; }
  /// The exchange of ranks after each step.
  std::optional<BackgroundSave::Saved> exchange() {
    return save_.advance(engine_.communicator().all_gather_value(save_.progress()));
  }
  /// Waits until the threads of all ranks have written.
  void wait_for_writes() {
    while (any_rank(engine_.communicator(), save_.progress() == Progress::kWriting)) {
    }
  }
  void barrier() { engine_.communicator().barrier(); }

 private:
  Engine engine_;
  CheckpointStore store_;
  BackgroundSave save_;
};

TEST(BackgroundSave, NoCheckpointCountsBeforeAllRanksHaveWrittenAndSaidSo) {
  const testing::TemporaryFolder folder;
  run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
    Saving saving(comm, folder);
    saving.wait_for_writes();
    if (saving.is_first()) {
      EXPECT_FALSE(CheckpointStore(folder.path()).holds_any());
      saving.save().note_evaluation(2.5);
    }
    saving.barrier();
    std::optional<BackgroundSave::Saved> saved;
    while (!saved) saved = saving.exchange();
    EXPECT_EQ(saved->step, 3);
    EXPECT_FALSE(saving.save().is_active());
    if (!saving.is_first()) return;
    EXPECT_EQ(saved->folder, folder / "step-000003");
    EXPECT_EQ(read_run_state(open_checkpoint(saved->folder, Verify::kChecksums)).eval_loss, 2.5);
    EXPECT_EQ(folder.num_entries(), 1);
  });
}

TEST(BackgroundSave, WaitingPutsItInItsPlace) {
  const testing::TemporaryFolder folder;
  run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
    Saving saving(comm, folder);
    EXPECT_EQ(saving.save().finish()->step, 3);
    EXPECT_FALSE(saving.save().finish());  // no save is active
  });
  EXPECT_TRUE(CheckpointStore(folder.path()).latest(Verify::kChecksums));
}

TEST(BackgroundSave, WhatIsGivenUpLeavesNothing) {
  const testing::TemporaryFolder folder;
  run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
    Saving saving(comm, folder);
    if (saving.is_first()) return;  // its destructor also discards the save
    saving.save().discard();
    EXPECT_FALSE(saving.save().is_active());
  });
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(BackgroundSave, AFailureIsToldToAllRanksAtTheNextExchange) {
  const testing::TemporaryFolder folder;
  run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
    Saving saving(comm, folder);
    saving.wait_for_writes();
    if (saving.is_first()) {
      // Checksums are next: an unreadable file stands for a failing disk.
      for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
        if (entry.path().filename() == "optimizer.safetensors") fs::remove(entry.path());
      }
    }
    saving.barrier();
    const std::string message = testing::message_of([&] {
      while (!saving.exchange()) {
      }
    });
    EXPECT_THAT(message, HasSubstr("rank 0: "));
    EXPECT_THAT(message, HasSubstr("optimizer.safetensors"));
    EXPECT_FALSE(saving.save().is_active());
  });
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(BackgroundSave, RanksThatSeeAnotherFolderAreRefused) {
  const testing::TemporaryFolder one, other;
  run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
    const auto& mine = (comm->rank() == 0 ? one : other).path();
    check_shared_output(*comm, one.path(), {.background = true});
    std::string message =
        testing::message_of([&] { check_shared_output(*comm, mine, {.background = true}); });
    EXPECT_THAT(message, HasSubstr("rank 1: checkpoint.background = true, but host "));
    EXPECT_THAT(message, HasSubstr("checkpoint.background = false"));
    message = testing::message_of([&] { check_shared_output(*comm, mine, {.every = 7}); });
    EXPECT_THAT(message,
                HasSubstr("rank 1: checkpoint.every is above 0, but host " + host_name() + " does not see"));
  });
  EXPECT_EQ(one.num_entries(), 0);
}

}  // namespace
}  // namespace trireme

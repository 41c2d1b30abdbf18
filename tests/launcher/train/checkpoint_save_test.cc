// Saves at once and in the background: the same checkpoints, evaluations and retention; checkpoints are
// atomic.
#include "launcher/train/checkpoint_save.h"

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
using Progress = CheckpointSave::Progress;

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

TEST(CheckpointSave, ARunLeavesTheCheckpointsOfOneInTheForeground) {
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

TEST(CheckpointSave, AnUninterruptedStateComesFromAResumedOne) {
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
        store_(folder / "checkpoints"),
        save_(engine_) {
    engine_.set_steps_done(3);
    RunState state{.step = 3, .state_hash = "00aa"};
    state.config = job(true);
    save_.start({.store = store_,
                 .state = state,
                 .tokenizer_model = std::nullopt,
                 .began = std::chrono::steady_clock::now()});
  }
  bool is_first() const { return engine_.communicator().rank() == 0; }
  CheckpointSave& save() { return save_; }
  /// The exchange of ranks after each step.
  std::optional<CheckpointSave::Saved> exchange() {
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
  CheckpointSave save_;
};

TEST(CheckpointSave, NoCheckpointCountsBeforeAllRanksHaveWrittenAndSaidSo) {
  const testing::TemporaryFolder folder;
  run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
    Saving saving(comm, folder);
    saving.wait_for_writes();
    if (saving.is_first()) {
      EXPECT_FALSE(CheckpointStore(folder / "checkpoints").holds_any());
      saving.save().note_evaluation(2.5);
    }
    saving.barrier();
    std::optional<CheckpointSave::Saved> saved;
    while (!saved) saved = saving.exchange();
    EXPECT_EQ(saved->step, 3);
    EXPECT_FALSE(saving.save().is_active());
    if (!saving.is_first()) return;
    EXPECT_EQ(saved->folder, folder / "checkpoints/step-000003");
    EXPECT_EQ(read_run_state(open_checkpoint(saved->folder, Verify::kChecksums)).eval_loss, 2.5);
    EXPECT_THAT(entries(folder / "checkpoints"), ElementsAre("step-000003"));
  });
}

TEST(CheckpointSave, WaitingPutsItInItsPlace) {
  const testing::TemporaryFolder folder;
  run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
    Saving saving(comm, folder);
    EXPECT_EQ(saving.save().finish()->step, 3);
    EXPECT_FALSE(saving.save().finish());  // no save is active
  });
  EXPECT_TRUE(CheckpointStore(folder / "checkpoints").latest(Verify::kChecksums));
}

TEST(CheckpointSave, WhatIsGivenUpLeavesNothing) {
  const testing::TemporaryFolder folder;
  run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
    Saving saving(comm, folder);
    if (saving.is_first()) return;  // its destructor also discards the save
    saving.save().discard();
    EXPECT_FALSE(saving.save().is_active());
  });
  EXPECT_THAT(entries(folder / "checkpoints"), ElementsAre());
}

TEST(CheckpointSave, AFailureIsToldToAllRanksAtTheNextExchange) {
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
    EXPECT_THAT(message, HasSubstr("optimizer.safetensors"));
    EXPECT_FALSE(saving.save().is_active());
  });
  EXPECT_THAT(entries(folder / "checkpoints"), ElementsAre());
}

// The limit of the following evaluation must not include rank 0's file system.
TEST(CheckpointSave, NobodyReturnsBeforeItIsInPlace) {
  const testing::TemporaryFolder folder;
  run_local_ranks(3, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(testing::tiny_gpt_config()), comm,
                  {.global_batch = 3, .layout = {.zero = ZeroStage::kOptimizer}});
    CheckpointStore store(folder / "checkpoints");
    CheckpointSave save(engine);
    RunState state;
    state.config.data.kind = DataKind::kSynthetic;
    for (std::int64_t step = 1; step <= 4; ++step) {
      engine.set_steps_done(step);
      const auto saved = save.save({.store = store,
                                    .state = state,
                                    .tokenizer_model = std::nullopt,
                                    .began = std::chrono::steady_clock::now()});
      const auto newest = store.latest(Verify::kSizes);
      EXPECT_EQ(newest ? newest->manifest.step : -1, step) << "rank " << comm->rank();
      EXPECT_EQ(saved.folder.empty(), comm->rank() > 0);
    }
  });
}

TEST(CheckpointSave, AFailedSaveIsAnErrorOnAllRanksAndLeavesNothing) {
  const testing::TemporaryFolder folder;
  run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(testing::tiny_gpt_config()), comm, {.global_batch = 4, .micro_batch = 2});
    CheckpointSave save(engine);
    RunState state;
    state.config.data.kind = DataKind::kSynthetic;
    const CheckpointStore store(folder / "file" / "checkpoints");
    if (comm->rank() == 0) testing::write_file(folder / "file", "not a folder");
    try {
      save.save({.store = store,
                 .state = state,
                 .tokenizer_model = std::nullopt,
                 .began = std::chrono::steady_clock::now()});
      ADD_FAILURE() << "saved";
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kRuntime);
    }
    EXPECT_FALSE(save.is_active());
  });
}

TEST(CheckpointSave, RanksThatSeeAnotherFolderAreRefused) {
  const testing::TemporaryFolder one, other;
  run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
    const auto& mine = (comm->rank() == 0 ? one : other).path();
    check_shared_output(*comm, one.path());
    EXPECT_THAT(testing::message_of([&] { check_shared_output(*comm, mine); }),
                HasSubstr("rank 1: host " + host_name() + " does not see"));
  });
  EXPECT_EQ(one.num_entries(), 0);
}

}  // namespace
}  // namespace trireme

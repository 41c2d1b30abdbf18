// checkpoint.partner: what hosts have in memory is the checkpoint, whichever of them is lost; what is damaged
// is named, and what else there is taken. Hosts are folders here; tests/net has real ones.
#include "launcher/partner/partner_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "launcher/partner/partner_restore.h"
#include "launcher/train/trainer.h"
#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "tests/support/log_capture.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const HostMap kTwoHosts = {0, 0, 1, 1};

/// The memories of hosts.
class Memories {
 public:
  PartnerRing ring(const std::shared_ptr<Communicator>& comm, const HostMap& hosts,
                   const std::vector<int>& names) const {
    const int host = hosts[static_cast<std::size_t>(comm->rank())];
    const PartnerFolder folder = folder_of(names[static_cast<std::size_t>(host)]);
    folder.prepare();
    return {.comm = comm, .hosts = hosts, .folder = folder, .run = "a run"};
  }
  PartnerFolder folder_of(int name) const { return {folder_ / std::to_string(name), "/out"}; }
  std::vector<int> ranks_in(int name) const {
    std::vector<int> ranks;
    for (const PartnerFolder::Shard& shard : folder_of(name).list()) ranks.push_back(shard.header.rank);
    std::ranges::sort(ranks);
    return ranks;
  }
  void lose(int name) const { fs::remove_all(folder_ / std::to_string(name)); }
  std::ptrdiff_t num_files(int name) const {
    const fs::path path = folder_of(name).path();
    return std::distance(fs::directory_iterator(path), fs::directory_iterator());
  }
  /// The file of a rank's shard.
  fs::path shard(int name, int rank) const {
    for (const PartnerFolder::Shard& one : folder_of(name).list())
      if (one.header.rank == rank) return one.path;
    return {};
  }

 private:
  testing::TemporaryFolder folder_;
};

void damage(const fs::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-1, std::ios::end);
  stream.put('\x55');
}

EngineOptions options(ZeroStage zero, int stages) {
  EngineOptions options{.global_batch = 8, .micro_batch = 2, .snapshots = true};
  options.zero = zero;
  options.pipeline.stages = stages;
  options.sample = {.input = {16}, .target = {16}};
  return options;
}

JobConfig job() {
  JobConfig config{.data = {.kind = DataKind::kSynthetic},
                   .train = {.steps = 6, .global_batch = 8, .micro_batch = 2}};
  config.model = {.layers = 2, .hidden = 32, .heads = 2, .vocab = 61, .seq_len = 16};
  config.optimizer.schedule = LrSchedule::Kind::kConstant;  // whatever the number of steps
  config.parallel.threads = 1;
  config.checkpoint = {.every = 2, .partner = true};
  return config;
}

/// Copies the states after steps 3, .. `last` of 4 ranks, and saves the last one into `saved`.
void copy(const Memories& memories, const fs::path& saved, const EngineOptions& engine_options, int last = 3,
          const HostMap& hosts = kTwoHosts, std::int64_t chunk_bytes = 10'000) {
  run_local_ranks(static_cast<int>(hosts.size()), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(testing::tiny_gpt_config()), comm, engine_options);
    PartnerCopy copy(engine, memories.ring(comm->split(0), hosts, {0, 1, 2, 3}), chunk_bytes);
    for (int step = 3; step <= last; ++step) {
      engine.step(testing::token_source(61, 16, 8 * step), 8 * 16, 1e-2);
      engine.set_steps_done(step);
      engine.snapshot()->take();
      RunState state{.step = step, .state_hash = "00aa", .config = job()};
      copy.start(state, std::nullopt);
      std::optional<PartnerCopy::Copied> copied;
      while (!copied) copied = copy.advance(comm->all_gather_value(copy.progress()));
      EXPECT_EQ(copied->step, step);
      EXPECT_FALSE(copy.is_active());
    }
    save_state(engine, saved);
  });
}

PartnerRestore::Refusal takes_all() {
  return [](const std::string&, const Checkpoint&) { return std::string(); };
}

/// What ranks on hosts with these names bring together: its step, or -1. Its files are those of `saved`.
std::int64_t restore(const Memories& memories, const fs::path& saved, const HostMap& hosts,
                     const std::vector<int>& names, std::int64_t least_step = 0) {
  std::atomic<std::int64_t> step = -1;
  run_local_ranks(static_cast<int>(hosts.size()), [&](const std::shared_ptr<Communicator>& comm) {
    PartnerRestore restore(memories.ring(comm->split(0), hosts, names), takes_all());
    const auto found = restore.bring(least_step);
    if (!found) return;
    step = found->checkpoint.manifest.step;
    EXPECT_EQ(found->run, "a run");
    EXPECT_EQ(found->checkpoint.manifest.content["state_hash"], "00aa");
    EXPECT_EQ(read_run_state(found->checkpoint).step, step);
    for (const auto& file : fs::directory_iterator(saved)) {
      const fs::path name = file.path().filename();
      EXPECT_TRUE(testing::read_file(found->checkpoint.folder / name) == testing::read_file(file.path()))
          << name;
    }
    comm->barrier();  // until all have looked
    restore.clear();
  });
  return step;
}

struct PartnerCopies : ::testing::Test {
  Memories memories;
  testing::TemporaryFolder saved;
  /// What the program says while `work` runs.
  static std::string said(const std::function<void()>& work) {
    const testing::LogCapture log;
    work();
    return log.text();
  }
};

TEST_F(PartnerCopies, EachHostHasItsOwnAndThoseOfTheHostBefore) {
  copy(memories, saved.path(), options(ZeroStage::kOptimizer, 1), 3, {0, 1, 2, 2});
  EXPECT_EQ(memories.ranks_in(0), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(memories.ranks_in(1), (std::vector<int>{0, 1}));
  EXPECT_EQ(memories.ranks_in(2), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(memories.num_files(0), 3) << "and nothing else";
}

TEST_F(PartnerCopies, AnyHostMayBeLostAndAnyLayoutGoOn) {
  for (const auto& engine_options : {options(ZeroStage::kNone, 1), options(ZeroStage::kParameters, 1),
                                     options(ZeroStage::kGradients, 2)}) {
    for (const int lost : {0, 1}) {
      const Memories both;
      const testing::TemporaryFolder files;
      copy(both, files.path(), engine_options);
      EXPECT_EQ(restore(both, files.path(), {0, 0, 1}, {0, 1}), 3);
      both.lose(lost);
      EXPECT_EQ(restore(both, files.path(), {0}, {1 - lost}), 3);                 // what is left of them
      EXPECT_EQ(restore(both, files.path(), {0, 1, 1, 0}, {1 - lost, lost}), 3);  // a new one in its place
      EXPECT_EQ(restore(both, files.path(), {0, 1, 2, 2, 2}, {7, 8, 1 - lost}), 3);
      EXPECT_EQ(both.num_files(1 - lost), 4) << "what was brought together is gone again";
      both.lose(1 - lost);
      EXPECT_EQ(restore(both, files.path(), {0}, {1 - lost}), -1);
    }
  }
}

TEST_F(PartnerCopies, TheNewestOneAloneIsKept) {
  copy(memories, saved.path(), options(ZeroStage::kOptimizer, 1), 5);
  EXPECT_EQ(memories.num_files(0), 4);
  EXPECT_EQ(restore(memories, saved.path(), kTwoHosts, {0, 1}, 6), -1) << "none is as new";
  EXPECT_EQ(restore(memories, saved.path(), kTwoHosts, {0, 1}, 5), 5);
}

TEST_F(PartnerCopies, ADamagedOneIsNamedAndItsCopyTaken) {
  copy(memories, saved.path(), options(ZeroStage::kOptimizer, 1));
  const fs::path file = memories.shard(1, 2);
  damage(file);
  const std::string words = said([&] { EXPECT_EQ(restore(memories, saved.path(), kTwoHosts, {0, 1}), 3); });
  EXPECT_THAT(words,
              HasSubstr("shard " + file.string() + " of a checkpoint was changed after it was written"));
  damage(memories.shard(0, 2));
  const std::string more = said([&] { EXPECT_EQ(restore(memories, saved.path(), kTwoHosts, {0, 1}), -1); });
  EXPECT_THAT(more, HasSubstr("is not whole: 1 of its 4 shards are missing or damaged"));
}

TEST_F(PartnerCopies, AnOlderOneIsTakenWhereTheNewestIsNotWhole) {
  const testing::TemporaryFolder aside;
  copy(memories, saved.path(), options(ZeroStage::kOptimizer, 1));
  fs::copy(memories.folder_of(0).path(), aside.path(), fs::copy_options::recursive);
  const testing::TemporaryFolder later;
  copy(memories, later.path(), options(ZeroStage::kOptimizer, 1), 4);
  fs::copy(aside.path(), memories.folder_of(0).path());  // as if its host had died before it was removed
  EXPECT_EQ(restore(memories, later.path(), kTwoHosts, {0, 1}), 4);
  EXPECT_EQ(memories.num_files(0), 4) << "others made room";
  fs::copy(aside.path(), memories.folder_of(0).path());
  for (const int name : {0, 1}) {
    for (const PartnerFolder::Shard& shard : memories.folder_of(name).list()) {
      if (shard.header.step == 4 && shard.header.rank == 1) damage(shard.path);
    }
  }
  const std::string words = said([&] { EXPECT_EQ(restore(memories, saved.path(), kTwoHosts, {0, 1}), 3); });
  EXPECT_THAT(words, HasSubstr("checkpoint of step 4"));
}

TEST_F(PartnerCopies, AMemoryThatTakesNothingIsOneWarning) {
  const std::string words = said([&] {
    run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(testing::tiny_gpt_config()), comm, options(ZeroStage::kOptimizer, 1));
      PartnerCopy copy(engine, memories.ring(comm->split(0), {0, 1}, {0, 1}));
      const auto try_once = [&](int step) {
        engine.set_steps_done(step);
        engine.snapshot()->take();
        copy.start(RunState{.step = step, .config = job()}, std::nullopt);
        return copy.finish().has_value();
      };
      comm->barrier();
      if (comm->rank() == 0) fs::remove_all(memories.folder_of(1).path());
      comm->barrier();
      EXPECT_FALSE(try_once(1));
      EXPECT_FALSE(try_once(2));
      comm->barrier();
      if (comm->rank() == 0) memories.folder_of(1).prepare();
      comm->barrier();
      EXPECT_TRUE(try_once(3));
    });
  });
  const std::string warning =
      "the checkpoint of step 1 was not copied into the memory of hosts: rank 1: host ";
  EXPECT_THAT(words, HasSubstr(warning));
  EXPECT_THAT(words, HasSubstr("No such file or directory"));
  EXPECT_THAT(words, Not(HasSubstr("the checkpoint of step 2")));
  EXPECT_EQ(memories.ranks_in(1), (std::vector<int>{0, 1}));
}

TEST_F(PartnerCopies, WhatIsGivenUpLeavesNothing) {
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(testing::tiny_gpt_config()), comm, options(ZeroStage::kOptimizer, 1));
    PartnerCopy copy(engine, memories.ring(comm->split(0), {0, 1}, {0, 1}));
    engine.snapshot()->take();
    copy.start(RunState{.config = job()}, std::nullopt);
    comm->barrier();
  });
  EXPECT_EQ(memories.num_files(0), 0);
}

/// A run of two ranks on one host; its exit code, and what it warns of.
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
  JobConfig partner_job() const {
    JobConfig config = job();
    config.checkpoint.partner_folder = (memory_ / "memory").string();
    config.checkpoint.background = GetParam();
    return config;
  }
  /// One that its time limit ends after a step.
  void run_a_step() const {
    JobConfig config = partner_job();
    config.train.max_minutes = 1e-9;
    EXPECT_EQ(run_job(config, out()).code, ExitCode::kStopped);
  }
  fs::path out() const { return memory_ / "out"; }
  std::string hash(const fs::path& run) const {
    return read_run_state(*CheckpointStore(run / "checkpoints").latest(Verify::kChecksums)).state_hash;
  }
  std::string undisturbed() const {
    JobConfig config = job();
    config.checkpoint.partner = false;
    run_job(config, memory_ / "undisturbed");
    return hash(memory_ / "undisturbed");
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
  const Ended ended = run_job(partner_job(), out());
  EXPECT_THAT(ended.words, HasSubstr("going on from the checkpoint of step 1 in the memory of "));
  EXPECT_THAT(ended.words, HasSubstr("has no whole checkpoint"));
  EXPECT_EQ(hash(out()), undisturbed());
  EXPECT_EQ(num_copies(), 0) << "a run that is done needs none";
}

TEST_P(PartnerRuns, GoOnWithDamagedFiles) {
  run_a_step();
  damage(out() / "checkpoints/step-000001/model.safetensors");
  run_a_step();  // from memory
  for (const auto& step : fs::directory_iterator(out() / "checkpoints"))
    damage(step.path() / "model.safetensors");
  for (const auto& entry : fs::recursive_directory_iterator(memory_ / "memory"))
    if (entry.path().extension() == ".shard") damage(entry.path());
  JobConfig config = partner_job();
  EXPECT_THAT(testing::message_of([&] { run_job(config, out()); }), HasSubstr("all of them are damaged"));
}

TEST_P(PartnerRuns, PassOverCopiesOfAnotherJob) {
  run_a_step();
  fs::remove_all(out());
  JobConfig other = partner_job();
  other.optimizer.lr *= 2;
  EXPECT_THAT(run_job(other, out()).words,
              HasSubstr("the output folder is new, and the job is another: optimizer.lr"));
  EXPECT_NE(hash(out()), undisturbed());
}

TEST_P(PartnerRuns, PassOverCopiesOfAnotherRun) {
  run_a_step();
  std::ofstream(out() / "run_id") << "another\n";
  fs::remove_all(out() / "checkpoints");
  EXPECT_THAT(run_job(partner_job(), out()).words, HasSubstr("it is of another run with this output folder"));
  EXPECT_EQ(hash(out()), undisturbed());
}

// As it goes on without the copies, what they have is not of it any more.
TEST_P(PartnerRuns, PassOverCopiesOfBeforeARunWithoutThem) {
  run_a_step();
  JobConfig without = partner_job();
  without.checkpoint.partner = false;
  without.train.max_minutes = 1e-9;
  EXPECT_EQ(run_job(without, out()).code, ExitCode::kStopped);
  fs::remove_all(out() / "checkpoints");
  EXPECT_EQ(num_copies(), 2);
  EXPECT_THAT(run_job(partner_job(), out()).words, HasSubstr("it is of another run with this output folder"));
  EXPECT_EQ(hash(out()), undisturbed());
}

TEST_P(PartnerRuns, PassOverCopiesOfBeforeAStepBack) {
  run_a_step();
  run_a_step();
  const testing::TemporaryFolder kept;
  fs::copy(memory_ / "memory", kept.path() / "memory", fs::copy_options::recursive);
  fs::remove_all(out() / "checkpoints/step-000002");
  JobConfig back = partner_job();
  back.train.max_minutes = 1e-9;
  back.checkpoint.resume = {.kind = Resume::Kind::kCheckpoint,
                            .path = (out() / "checkpoints/step-000001").string()};
  back.optimizer.lr *= 2;
  EXPECT_EQ(run_job(back, out()).code, ExitCode::kStopped);
  fs::remove_all(memory_ / "memory");  // another host has those of the step back, this one those of before
  fs::copy(kept.path() / "memory", memory_ / "memory", fs::copy_options::recursive);
  fs::remove_all(out() / "checkpoints");
  EXPECT_THAT(run_job(partner_job(), out()).words, HasSubstr("it is of another run with this output folder"));
}

TEST_P(PartnerRuns, StopBeforeLaterCheckpointsAsWithoutThem) {
  run_a_step();
  run_a_step();
  JobConfig config = partner_job();
  config.train.steps = 1;
  EXPECT_THAT(testing::message_of([&] { run_job(config, out()); }), HasSubstr("beyond train.steps = 1"));
  EXPECT_EQ(num_copies(), 2);
}

TEST_P(PartnerRuns, DoNotBeginAnewWhereACopyIsDamaged) {
  run_a_step();
  fs::remove_all(out() / "checkpoints");
  for (const auto& entry : fs::recursive_directory_iterator(memory_ / "memory"))
    if (entry.path().extension() == ".shard") damage(entry.path());
  EXPECT_THAT(
      testing::message_of([&] { run_job(partner_job(), out()); }),
      HasSubstr("is damaged, and " + (out() / "checkpoints").string() + " has no checkpoint: mend that"));
  EXPECT_EQ(num_copies(), 2);
}

TEST_P(PartnerRuns, BeginAnewWhereTheyAreToldTo) {
  run_a_step();
  fs::remove_all(out());
  JobConfig config = partner_job();
  config.checkpoint.resume.kind = Resume::Kind::kNever;
  const Ended ended = run_job(config, out());
  EXPECT_THAT(ended.words, Not(HasSubstr("going on from")));
  EXPECT_EQ(hash(out()), undisturbed());
}

TEST_P(PartnerRuns, NameAFolderThatCannotBeWritten) {
  JobConfig config = partner_job();
  std::ofstream(memory_ / "memory") << "a file";
  EXPECT_THAT(testing::message_of([&] { run_job(config, out()); }),
              HasSubstr("checkpoint.partner_folder = \"" + config.checkpoint.partner_folder +
                        "\": cannot write into "));
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, PartnerRuns, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "InTheBackground" : "AtOnce"; });

}  // namespace
}  // namespace trireme

// checkpoint.partner: the copies in hosts' memory restore the checkpoint, whichever host is lost. Damaged
// shards are named, and other copies used. Hosts are folders here; tests/net has real ones.
#include "launcher/partner/partner_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/partner/partner_restore.h"
#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "tests/launcher/partner/partner_job.h"
#include "tests/support/log_capture.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const HostMap kTwoHosts = {0, 0, 1, 1};

/// Folders that stand for the memory of hosts.
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
  /// The file with a rank's shard.
  fs::path shard(int name, int rank) const {
    for (const PartnerFolder::Shard& one : folder_of(name).list())
      if (one.header.rank == rank) return one.path;
    return {};
  }

 private:
  testing::TemporaryFolder folder_;
};

EngineOptions options(ZeroStage zero, int stages) {
  EngineOptions options{.global_batch = 8, .micro_batch = 2, .snapshots = true};
  options.layout.zero = zero;
  options.layout.pipeline = stages;
  options.sample = {.input = {16}, .target = {16}};
  return options;
}

/// Copies the states after steps 3 to `last` of 4 ranks, and saves the last one to `saved`.
void copy(const Memories& memories, const fs::path& saved, const EngineOptions& engine_options, int last = 3,
          const HostMap& hosts = kTwoHosts, std::int64_t chunk_bytes = 10'000) {
  run_local_ranks(static_cast<int>(hosts.size()), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(testing::tiny_gpt_config()), comm, engine_options);
    PartnerCopy copy(engine, memories.ring(comm->split(0), hosts, {0, 1, 2, 3}), chunk_bytes);
    for (int step = 3; step <= last; ++step) {
      engine.step(testing::token_source(61, 16, 8 * step), 8 * 16, 1e-2);
      engine.set_steps_done(step);
      engine.snapshot()->take();
      RunState state{.step = step, .state_hash = "00aa", .config = testing::partner_job()};
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

/// Assembles a checkpoint on ranks whose hosts have these names. Returns its step, or -1. Its files must
/// equal `saved`'s.
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
    comm->barrier();  // until all ranks have checked
    restore.clear();
  });
  return step;
}

struct PartnerCopies : ::testing::Test {
  Memories memories;
  testing::TemporaryFolder saved;
  /// The log output during `work`.
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
      EXPECT_EQ(restore(both, files.path(), {0}, {1 - lost}), 3);  // only the other host remains
      EXPECT_EQ(restore(both, files.path(), {0, 1, 1, 0}, {1 - lost, lost}), 3);  // a new host replaces it
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
  testing::damage(file);
  const std::string words = said([&] { EXPECT_EQ(restore(memories, saved.path(), kTwoHosts, {0, 1}), 3); });
  EXPECT_THAT(words,
              HasSubstr("shard " + file.string() + " of a checkpoint was changed after it was written"));
  testing::damage(memories.shard(0, 2));
  const std::string more = said([&] { EXPECT_EQ(restore(memories, saved.path(), kTwoHosts, {0, 1}), -1); });
  EXPECT_THAT(more, HasSubstr("is not whole: 1 of its 4 shards are missing or damaged"));
}

TEST_F(PartnerCopies, AnOlderOneIsTakenWhereTheNewestIsNotWhole) {
  const testing::TemporaryFolder aside;
  copy(memories, saved.path(), options(ZeroStage::kOptimizer, 1));
  fs::copy(memories.folder_of(0).path(), aside.path(), fs::copy_options::recursive);
  const testing::TemporaryFolder later;
  copy(memories, later.path(), options(ZeroStage::kOptimizer, 1), 4);
  fs::copy(aside.path(), memories.folder_of(0).path());  // as if the host had died before the removal
  EXPECT_EQ(restore(memories, later.path(), kTwoHosts, {0, 1}), 4);
  EXPECT_EQ(memories.num_files(0), 4) << "others made room";
  fs::copy(aside.path(), memories.folder_of(0).path());
  for (const int name : {0, 1}) {
    for (const PartnerFolder::Shard& shard : memories.folder_of(name).list()) {
      if (shard.header.step == 4 && shard.header.rank == 1) testing::damage(shard.path);
    }
  }
  const std::string words = said([&] { EXPECT_EQ(restore(memories, saved.path(), kTwoHosts, {0, 1}), 3); });
  EXPECT_THAT(words, HasSubstr("checkpoint of step 4"));
}

TEST_F(PartnerCopies, NothingButShardsAndUnfinishedFilesIsEverRemoved) {
  const PartnerFolder folder = memories.folder_of(0);
  folder.prepare();
  const testing::TemporaryFolder elsewhere;
  testing::write_file(elsewhere / "precious", "precious");
  fs::create_directory_symlink(elsewhere.path(), folder.path() / "step-000003.0-of-1.x.shard");
  fs::create_directory_symlink(elsewhere.path(), folder.path() / ".restored-step-000003-y");
  testing::write_file(folder.path() / ".restored-step-000003-x/model.safetensors", "a file");
  testing::write_file(folder.path() / "notes/precious", "precious");
  testing::write_file(folder.path() / ".unfinished/below/precious", "precious");
  folder.clear_unfinished();
  folder.keep_only("z");
  EXPECT_FALSE(fs::exists(folder.path() / ".restored-step-000003-x"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder.path() / ".restored-step-000003-y")));
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder.path() / "step-000003.0-of-1.x.shard")));
  for (const fs::path& kept : {elsewhere / "precious", folder.path() / "notes/precious",
                               folder.path() / ".unfinished/below/precious"})
    EXPECT_EQ(testing::read_file(kept), "precious") << kept;
}

TEST_F(PartnerCopies, AFolderThatAnotherUserCouldExchangeIsNeitherReadNorWritten) {
  copy(memories, saved.path(), options(ZeroStage::kOptimizer, 1));
  const fs::path root = memories.folder_of(0).path().parent_path().parent_path();
  fs::permissions(root, fs::perms::all);
  EXPECT_THAT(testing::message_of([&] { memories.folder_of(0).prepare(); }),
              HasSubstr("other users can write into " + root.string()));
  EXPECT_THAT(said([&] { EXPECT_TRUE(memories.folder_of(0).list().empty()); }),
              HasSubstr("ignoring " + memories.folder_of(0).path().string()));
}

TEST_F(PartnerCopies, AMemoryThatTakesNothingIsOneWarning) {
  const std::string words = said([&] {
    run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(testing::tiny_gpt_config()), comm, options(ZeroStage::kOptimizer, 1));
      PartnerCopy copy(engine, memories.ring(comm->split(0), {0, 1}, {0, 1}));
      const auto try_once = [&](int step) {
        engine.set_steps_done(step);
        engine.snapshot()->take();
        copy.start(RunState{.step = step, .config = testing::partner_job()}, std::nullopt);
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
    copy.start(RunState{.config = testing::partner_job()}, std::nullopt);
    comm->barrier();
  });
  EXPECT_EQ(memories.num_files(0), 0);
}

}  // namespace
}  // namespace trireme

// Exchanges on two levels, inside hosts and over them: the same bits as on one level, predicted memory and
// traffic, and the bytes that leave a host.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "parallel/foresee/predict.h"
#include "parallel/run/checkpoint_state.h"
#include "tests/support/pipeline_layout.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::PipelineLayout;
using testing::PipelineOutcome;
using testing::sampled;

constexpr std::int64_t kSteps = 3;

struct HostLayout {
  PipelineLayout in;
  int ranks_per_host = 1;
  Reduction reduction = Reduction::kCanonical;
  int tensor = 1;

  std::string to_string() const {
    return fmt::format("{} x {} tensor ranks, {} ranks a host{}{}", in.to_string(), tensor, ranks_per_host,
                       in.group_min_bytes > 0 ? ", shared groups" : "",
                       reduction == Reduction::kFast ? ", fast" : "");
  }
  int ranks() const { return in.ranks() * tensor; }
  EngineOptions options(Exchange exchange) const {
    EngineOptions options = in.options();
    options.layout.exchange = exchange;
    options.hosts = hosts_of(ranks(), ranks_per_host);
    options.reduction = reduction;
    options.layout.tensor = tensor;
    return options;
  }
  BlockList blocks() const {
    GptConfig config = in.model();
    config.tensor_chunks = 2;
    return build_gpt(config);
  }
};

// Every rank's outcome must equal rank 0's, and memory and traffic of a step must equal the prediction.
PipelineOutcome play(const HostLayout& layout, Exchange exchange) {
  const auto blocks = std::make_shared<const BlockList>(layout.blocks());
  const EngineOptions options = layout.options(exchange);
  std::vector<PipelineOutcome> outcomes(static_cast<std::size_t>(layout.ranks()));
  std::mutex mutex;
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(blocks, comm, options);
    const StepPrediction predicted =
        predict_step(blocks, options, *options.sample, layout.ranks(), comm->rank());
    StepResult last = testing::train(engine, layout.in, kSteps);
    last.memory.peak[MemoryCategory::kWorkspace] = 0;
    {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(engine.exchange().why_flat, "") << layout.to_string();
      EXPECT_EQ(last.memory.peak.bytes, predicted.memory.peak.bytes) << layout.to_string();
      EXPECT_EQ(last.memory.peak_total, predicted.memory.peak_total) << layout.to_string();
      EXPECT_EQ(last.sent_bytes, predicted.sent_bytes) << layout.to_string();
    }
    outcomes[static_cast<std::size_t>(comm->rank())] = testing::outcome_of(engine, layout.in, last);
  });
  for (const PipelineOutcome& outcome : outcomes) EXPECT_TRUE(outcome == outcomes[0]) << layout.to_string();
  return outcomes[0];
}

// Hosts x ranks, ZeRO, accumulation, recompute, prefetch, stages, schedules, precision, tied or not.
std::vector<HostLayout> layouts() {
  std::vector<HostLayout> all;
  const auto add = [&](HostLayout layout) { all.push_back(std::move(layout)); };
  for (const int zero : {0, 1, 2, 3}) {
    for (const auto& [data, per_host] : {std::pair{4, 2}, {8, 2}, {8, 4}}) {
      for (const bool tied : {false, true}) {
        add({.in = {.data = data, .zero = zero, .tied = tied, .micro_batch = 1}, .ranks_per_host = per_host});
      }
      add({.in = {.data = data, .zero = zero, .recompute = 2, .micro_batch = 2}, .ranks_per_host = per_host});
    }
    // With three hosts the tree over hosts is not complete.
    add({.in = {.data = 6, .zero = zero, .global_batch = 24, .micro_batch = 2}, .ranks_per_host = 2});
    for (const PipelineSchedule schedule :
         {PipelineSchedule::kOneForwardOneBackward, PipelineSchedule::kInterleaved,
          PipelineSchedule::kZeroBubbleH1}) {
      const int chunks = schedule == PipelineSchedule::kInterleaved ? 2 : 1;
      add({.in = {.stages = 2, .data = 4, .schedule = schedule, .chunks = chunks, .zero = zero},
           .ranks_per_host = 2});
    }
    add({.in = {.data = 4, .zero = zero, .precision = Precision(PrecisionMode::kBf16)}, .ranks_per_host = 2});
    add({.in = {.data = 4, .zero = zero, .group_min_bytes = 1 << 14}, .ranks_per_host = 2});
    add({.in = {.data = 4, .zero = zero}, .ranks_per_host = 4, .tensor = 2});
  }
  for (const bool kept : {false, true}) {
    for (const bool unsharded : {false, true}) {
      for (const int prefetch : {0, 1, 3}) {
        add({.in = {.data = 4,
                    .zero = 3,
                    .accumulate_unsharded = unsharded,
                    .keep_gathered = kept,
                    .prefetch = prefetch},
             .ranks_per_host = 2});
      }
    }
  }
  return all;
}

TEST(ExchangeLayouts, TwoLevelsGiveTheBitsOfOne) {
  std::map<std::string, PipelineOutcome> expected;  // on one rank
  for (const HostLayout& layout : sampled(layouts(), 5)) {
    const PipelineLayout alone{.tied = layout.in.tied,
                               .precision = layout.in.precision,
                               .global_batch = layout.in.global_batch,
                               .micro_batch = layout.in.micro_batch};
    const std::string mathematics =
        fmt::format("{} {} {} {}", alone.tied, static_cast<int>(alone.precision.mode()), alone.global_batch,
                    alone.micro_batch);
    if (!expected.contains(mathematics)) expected[mathematics] = play({.in = alone}, Exchange::kFlat);
    EXPECT_TRUE(play(layout, Exchange::kHierarchical) == expected[mathematics]) << layout.to_string();
  }
}

// With `reduction = "fast"` the sums differ between layouts, but training is as good as with canonical sums.
TEST(ExchangeLayouts, SumsOfTheLibraryGoAlongBothSidesOfTheGrid) {
  for (const int zero : {0, 1, 2, 3}) {
    for (const int stages : {1, 2}) {
      const PipelineLayout in{.stages = stages, .data = 4, .zero = zero};
      const HostLayout layout{.in = in, .ranks_per_host = 2, .reduction = Reduction::kFast};
      const PipelineOutcome fast = play(layout, Exchange::kHierarchical);
      const PipelineOutcome canonical = play({.in = in}, Exchange::kFlat);
      EXPECT_NEAR(fast.loss, canonical.loss, 1e-5) << layout.to_string();
      EXPECT_NEAR(fast.grad_norm, canonical.grad_norm, 1e-4) << layout.to_string();
    }
  }
  // Ranks per host need not be a power of two.
  const HostLayout six{.in = {.data = 6, .global_batch = 24, .micro_batch = 2},
                       .ranks_per_host = 3,
                       .reduction = Reduction::kFast};
  EXPECT_GT(play(six, Exchange::kHierarchical).loss, 0.0f);
}

// Counts the bytes that a rank sends over the hosts, to the ranks with its local rank on other hosts.
TEST(ExchangeLayouts, AHostSendsTheLeastThatThereIs) {
  for (const int zero : {0, 1, 2, 3}) {
    for (const auto& [data, per_host] : {std::pair{4, 2}, {8, 2}, {8, 4}}) {
      const HostLayout layout{
          .in = {.data = data, .zero = zero, .tied = false, .global_batch = data, .micro_batch = 1},
          .ranks_per_host = per_host};
      const EngineOptions options = layout.options(Exchange::kHierarchical);
      run_local_ranks(data, [&](const std::shared_ptr<Communicator>& comm) {
        Engine engine(layout.blocks(), comm, options);
        const std::int64_t before = engine.groups().over_hosts->traffic().sent_bytes;
        testing::train(engine, layout.in, 1);
        const std::int64_t sent = engine.groups().over_hosts->traffic().sent_bytes - before;
        std::int64_t elems = 0;
        for (const ParamGroup& group : engine.layout().groups) {
          elems += Sharding{data, 0}.padded(group.num_elems);
        }
        // Summed once and gathered once; stage 3 gathers for the forward and for the backward. One number per
        // norm block is added.
        const int hosts = data / per_host, buffers = zero == 3 ? 3 : 2;
        const std::int64_t norms = zero > 0 ? 4 * elems / kNormBlock : 0;
        EXPECT_EQ(sent * per_host, (buffers * 4 * elems + norms) * (hosts - 1) / hosts) << layout.to_string();
      });
    }
  }
}

TEST(ExchangeLayouts, CheckpointsResumeOnOneLevelAndOnTwo) {
  const HostLayout two{.in = {.data = 4, .zero = 1}, .ranks_per_host = 2};
  const HostLayout three{.in = {.data = 4, .zero = 3}, .ranks_per_host = 2};
  const PipelineOutcome expected = play({.in = {}}, Exchange::kFlat);
  for (const HostLayout* from : {&two, &three}) {
    const testing::TemporaryFolder folder;
    run_local_ranks(4, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(from->blocks(), comm, from->options(Exchange::kHierarchical));
      testing::train(engine, from->in, kSteps - 1);
      save_state(engine, folder.path());
    });
    for (const auto& [to, exchange] : {std::pair{&two, Exchange::kFlat}, {&three, Exchange::kHierarchical}}) {
      run_local_ranks(4, [&](const std::shared_ptr<Communicator>& comm) {
        Engine engine(to->blocks(), comm, to->options(exchange));
        load_state(engine, folder.path(), StateParts::kAll);
        engine.set_steps_done(kSteps - 1);
        testing::train(engine, to->in, kSteps);
        EXPECT_EQ(engine.state_hash(), expected.hash);
      });
    }
  }
}

ExchangeChoice choice(Exchange wanted, const HostMap& hosts, const BatchLayout& batch,
                      Reduction reduction = Reduction::kCanonical) {
  return choose_exchange(wanted, {{Axis::kData, static_cast<int>(hosts.size())}}, hosts, batch, reduction);
}

TEST(ExchangeChoice, TakesTwoLevelsWhereAHostsMicroBatchesAreACompleteSubtree) {
  const BatchLayout of_four{.global_batch = 8, .data_ranks = 4};
  const BatchLayout of_six{.global_batch = 6, .data_ranks = 6};
  const BatchLayout strided{.global_batch = 12, .data_ranks = 4, .assignment = Assignment::kStrided};
  const BatchLayout three_each{.global_batch = 12, .data_ranks = 4};
  EXPECT_EQ(choice(Exchange::kAuto, {0, 0, 1, 1}, of_four).data_ranks_per_host, 2);
  EXPECT_EQ(choice(Exchange::kAuto, {0, 0, 1, 1, 2, 2}, of_six).data_ranks_per_host, 2);
  EXPECT_EQ(choice(Exchange::kAuto, {0, 0, 1, 1}, strided).data_ranks_per_host, 2);
  EXPECT_EQ(choice(Exchange::kFlat, {0, 0, 1, 1}, of_four).data_ranks_per_host, 1);
  EXPECT_EQ(choice(Exchange::kFlat, {0, 0, 1, 1}, of_four).why_flat, "");
  const auto why_flat = [&](const HostMap& hosts, const BatchLayout& batch) {
    const ExchangeChoice made = choice(Exchange::kHierarchical, hosts, batch);
    EXPECT_EQ(made.data_ranks_per_host, 1);
    return made.why_flat;
  };
  EXPECT_EQ(why_flat({0, 0, 0, 0}, of_four), "no data axis spans hosts");
  EXPECT_EQ(why_flat({0, 1, 2, 3}, of_four), "no host has two ranks of one data axis");
  for (const HostMap& uneven : {HostMap{0, 0, 0, 1}, HostMap{0, 1, 0, 1}, HostMap{0, 0, 1, 2}}) {
    EXPECT_NE(why_flat(uneven, of_four).find("not equally many on all hosts"), std::string::npos);
  }
  EXPECT_NE(why_flat({0, 0, 0, 1, 1, 1}, of_six).find("are no power of two"), std::string::npos);
  EXPECT_NE(why_flat({0, 0, 1, 1}, three_each).find("the 6 micro-batches of a host's 2 data ranks"),
            std::string::npos);
  EXPECT_EQ(choice(Exchange::kHierarchical, {0, 0, 0, 1, 1, 1}, of_six, Reduction::kFast).data_ranks_per_host,
            3);
  EXPECT_EQ(choice(Exchange::kAuto, {0, 0, 0, 1, 1, 1}, of_six, Reduction::kFast).data_ranks_per_host, 1);
}

// With unequal numbers of ranks per host, exchanges have one level, and the same bits.
TEST(ExchangeLayouts, UnequalHostsStayFlat) {
  const PipelineLayout in{.data = 4, .zero = 1};
  EngineOptions options = HostLayout{.in = in}.options(Exchange::kHierarchical);
  options.hosts = {0, 0, 0, 1};
  const PipelineOutcome expected = play({.in = {}}, Exchange::kFlat);
  run_local_ranks(4, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(HostLayout{.in = in}.blocks(), comm, options);
    EXPECT_NE(engine.exchange().why_flat, "");
    testing::train(engine, in, kSteps);
    EXPECT_EQ(engine.state_hash(), expected.hash);
  });
}

}  // namespace
}  // namespace trireme

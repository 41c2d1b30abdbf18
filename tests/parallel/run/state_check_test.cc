// Bits that flip in a rank's state are found, with the rank, for every part of the state.
#include "parallel/run/state_check.h"

#include <gtest/gtest.h>

#include <mutex>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 8;

struct Job {
  int ranks = 4;
  int stages = 1;
  ZeroStage zero = ZeroStage::kNone;
  PrecisionMode mode = PrecisionMode::kFp32;
};

EngineOptions options_for(const Job& job, const GptConfig& config) {
  return {.global_batch = kGlobalBatch,
          .micro_batch = 1,
          .seed = 5,
          .layout = {.pipeline = job.stages, .zero = job.zero},
          .sample = SampleSpec{.input = {config.seq_len}, .target = {config.seq_len}},
          .precision = Precision(job.mode),
          .verify_state = true};
}

void step(Engine& engine) {
  const GptConfig config = testing::tiny_gpt_config();
  engine.step(testing::token_source(config.vocab, config.seq_len, engine.steps_done() * kGlobalBatch),
              kGlobalBatch * config.seq_len, 1e-2);
}

enum class When { kAfterAStep, kBetweenSteps };

// The finding of all ranks, which is the same on each.
std::optional<Corruption> look(const Engine& engine, When when) {
  StateCheck mine = when == When::kAfterAStep ? engine.verifier()->of_last_step() : engine.verifier()->now();
  mine.messages = engine.verifier()->messages();
  const std::vector<StateCheck> checks = engine.communicator().all_gather_value(mine);
  std::uint64_t messages = 0;
  for (const StateCheck& check : checks) messages += check.messages;
  EXPECT_EQ(messages, 0U) << "no message has changed on its way";
  return find_corruption(engine.groups().mesh, checks);
}

void flip(const Tensor& tensor, std::int64_t element, int bit) {
  auto* bytes = static_cast<unsigned char*>(tensor.data()) + element * size_bytes(tensor.dtype());
  bytes[bit / 8] ^= static_cast<unsigned char>(1 << (bit % 8));
}

using Strike = std::function<void(Engine& engine)>;
struct Findings {
  std::optional<Corruption> before, at_once, a_step_later, later_between;
};

// Three steps, a flipped bit on one rank, and another step.
Findings run(const Job& job, int victim, const Strike& strike) {
  Findings found;
  run_local_ranks(job.ranks, [&](const std::shared_ptr<Communicator>& comm) {
    const GptConfig config = testing::tiny_gpt_config();
    Engine engine(build_gpt(config), comm, options_for(job, config));
    Findings mine;
    for (int i = 0; i < 3; ++i) {
      step(engine);
      if (!mine.before) mine.before = look(engine, When::kAfterAStep);
      if (!mine.before) mine.before = look(engine, When::kBetweenSteps);
    }
    if (comm->rank() == victim) strike(engine);
    mine.at_once = look(engine, When::kBetweenSteps);
    step(engine);
    mine.a_step_later = look(engine, When::kAfterAStep);
    mine.later_between = look(engine, When::kBetweenSteps);
    if (comm->rank() == 0) found = mine;
  });
  return found;
}

void expect_only(const std::optional<Corruption>& found, int rank, const std::string& what) {
  ASSERT_TRUE(found) << what;
  EXPECT_EQ(found->ranks, std::vector<int>{rank}) << what;
  EXPECT_TRUE(found->is_certain) << what;
}

TEST(StateCheck, ReplicatedStateIsComparedAndTheMajorityIsRight) {
  for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
    for (const int state : {-1, 0, 1}) {
      const Findings found = run({.mode = mode}, 2, [&](Engine& engine) {
        flip(state < 0 ? engine.parameters().master(1) : engine.parameters().state(1, state), 17, 20);
      });
      EXPECT_FALSE(found.before) << state;
      expect_only(found.at_once, 2, fmt::format("state {}", state));
      expect_only(found.later_between, 2, fmt::format("state {}", state));  // it stays
    }
  }
}

TEST(StateCheck, OfTwoRanksBothAreNamed) {
  const Findings found =
      run({.ranks = 2}, 1, [](Engine& engine) { flip(engine.parameters().master(0), 3, 22); });
  ASSERT_TRUE(found.at_once);
  EXPECT_EQ(found.at_once->ranks, (std::vector<int>{0, 1}));
  EXPECT_FALSE(found.at_once->is_certain);
}

TEST(StateCheck, ShardsAndASingleRankCarryChecksums) {
  struct Case {
    int ranks;
    ZeroStage zero;
  };
  for (const auto& [ranks, zero] : {Case{1, ZeroStage::kNone}, Case{2, ZeroStage::kOptimizer},
                                    Case{4, ZeroStage::kGradients}, Case{4, ZeroStage::kParameters}}) {
    for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
      for (const int state : {-1, 0, 1}) {
        const std::string what = fmt::format("{} ranks, zero {}, {}, state {}", ranks, static_cast<int>(zero),
                                             name(Precision(mode).compute_dtype()), state);
        const int victim = ranks - 1;
        const Findings found = run({.ranks = ranks, .zero = zero, .mode = mode}, victim, [&](Engine& engine) {
          flip(state < 0 ? engine.parameters().master(1) : engine.parameters().state(1, state), 5, 1);
        });
        EXPECT_FALSE(found.before) << what;
        expect_only(found.at_once, victim, what);
        expect_only(found.a_step_later, victim, what);
        EXPECT_EQ(found.at_once->group, 1) << what;
      }
    }
  }
}

// The next update replaces working copies, so a flip must be detected in the step that used it.
TEST(StateCheck, WorkingCopiesAreComparedAsAStepUsedThem) {
  for (const Job& job : {Job{.mode = PrecisionMode::kBf16}, Job{.zero = ZeroStage::kOptimizer},
                         Job{.zero = ZeroStage::kOptimizer, .mode = PrecisionMode::kBf16}}) {
    const Findings found = run(job, 1, [](Engine& engine) {
      // Another rank updates the last element of the parameters.
      flip(engine.parameters().working(1), engine.layout().groups[1].num_elems - 1, 12);
    });
    EXPECT_FALSE(found.before);
    expect_only(found.a_step_later, 1, "working copy");
  }
}

TEST(StateCheck, EachStageComparesItsOwnRanks) {
  int victim_group = -1;
  const Findings found = run({.ranks = 6, .stages = 2}, 4, [&](Engine& engine) {
    for (int g = 0; g < static_cast<int>(engine.layout().groups.size()) && victim_group < 0; ++g) {
      if (engine.parameters().owns(g)) victim_group = g;
    }
    flip(engine.parameters().master(victim_group), 0, 30);
  });
  EXPECT_FALSE(found.before);
  expect_only(found.at_once, 4, "stage 1");
}

TEST(StateCheck, EveryBitIsFound) {
  run_local_ranks(3, [&](const std::shared_ptr<Communicator>& comm) {
    const GptConfig config = testing::tiny_gpt_config();
    Engine engine(build_gpt(config), comm,
                  {.global_batch = 3, .micro_batch = 1, .seed = 5, .verify_state = true});
    for (int i = 0; i < 100; ++i) {
      const Philox4 words = philox4x32({static_cast<std::uint32_t>(i), 0, 0, 0}, {1, 2});
      const int group = static_cast<int>(words[0] % engine.layout().groups.size());
      const std::int64_t element =
          words[1] % engine.layout().groups[static_cast<std::size_t>(group)].num_elems;
      const int victim = static_cast<int>(words[2] % 3), bit = static_cast<int>(words[3] % 32);
      const auto strike = [&] {
        if (comm->rank() == victim) flip(engine.parameters().master(group), element, bit);
      };
      strike();
      expect_only(look(engine, When::kBetweenSteps), victim, fmt::format("flip {}", i));
      strike();
      EXPECT_FALSE(look(engine, When::kBetweenSteps));
    }
  });
}

// State read from a checkpoint is not a flip.
TEST(StateCheck, StateFromOutsideIsNotKnownYet) {
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    const GptConfig config = testing::tiny_gpt_config();
    Engine engine(build_gpt(config), comm, options_for({.zero = ZeroStage::kOptimizer}, config));
    step(engine);
    EXPECT_FALSE(look(engine, When::kAfterAStep));  // this waits for parameters in flight
    flip(engine.parameters().master(0), 0, 3);
    engine.refresh_parameters();
    EXPECT_FALSE(look(engine, When::kBetweenSteps));
    step(engine);
    EXPECT_FALSE(look(engine, When::kAfterAStep));
  });
}

TEST(StateCheck, ChecksOfAllRanksAreNeeded) {
  EXPECT_THROW(find_corruption(Mesh{{Axis::kData, 2}}, std::vector<StateCheck>(3)), Error);
}

}  // namespace
}  // namespace trireme

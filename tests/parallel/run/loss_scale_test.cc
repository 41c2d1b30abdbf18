// Skipped steps: the course of the loss scale, the state after a skipped step, the gradient that is named,
// and that no step waits for the device.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>

#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "tests/support/poisoned_backend.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 16, kMicroBatch = 2;
constexpr std::int64_t kTargets = kGlobalBatch * 16;
const LossScaleConfig kDynamic{
    .kind = LossScaleConfig::Kind::kDynamic, .initial = 4096.0f, .growth_interval = 3};

struct LayoutCase {
  PrecisionMode mode = PrecisionMode::kFp32;
  int ranks = 1;
  int zero = 0;
};

EngineOptions options_for(const LayoutCase& layout, const LossScaleConfig& scale = kDynamic) {
  return {.global_batch = kGlobalBatch,
          .micro_batch = kMicroBatch,
          .seed = 3,
          .optimizer = {.weight_decay = 0.1f},
          .grad_clip = 0.5f,
          .layout = {.zero = static_cast<ZeroStage>(layout.zero)},
          .precision = Precision(layout.mode),
          .loss_scale = scale,
          .backend = &testing::poisoned_backend()};
}

GptConfig model() {
  GptConfig config = testing::tiny_gpt_config();
  config.vocab = testing::kPoison + 1;
  return config;
}

// Steps of the pattern, one after a growth and two in a row; sample 11 belongs to micro-batch 5.
const std::vector<std::int64_t> kPoisonedSample = {-1, -1, -1, -1, 11, -1, 0, 15, -1, -1, -1, -1, -1, 3, -1};

BatchSource source_of(std::int64_t step) {
  return testing::with_poison(testing::token_source(testing::kPoison, 16, step * kGlobalBatch),
                              kPoisonedSample[static_cast<std::size_t>(step)]);
}

StepResult play(Engine& engine) {
  return engine.step(source_of(engine.steps_done()), kTargets, 1e-2);
}

struct Course {
  std::vector<float> scales;
  std::vector<bool> skipped;
  std::vector<std::uint64_t> hashes;
  LossScaleState state;
  bool operator==(const Course&) const = default;
};

Course run(const LayoutCase& layout, const LossScaleConfig& scale = kDynamic) {
  Course course;
  run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(model()), comm, options_for(layout, scale));
    Course mine;
    for (std::size_t step = 0; step < kPoisonedSample.size(); ++step) {
      const StepResult result = play(engine);
      EXPECT_EQ(std::isfinite(result.grad_norm), !result.skipped);
      mine.scales.push_back(result.loss_scale);
      mine.skipped.push_back(result.skipped);
      mine.hashes.push_back(engine.state_hash());
    }
    mine.state = engine.loss_scale_state();
    if (comm->rank() == 0) course = mine;
  });
  return course;
}

// torch.cuda.amp.GradScaler's rule for the pattern.
Course expected_course() {
  Course course;
  float scale = kDynamic.initial;
  int tracker = 0, in_a_row = 0, updates = 0;
  for (const std::int64_t poisoned : kPoisonedSample) {
    const bool skip = poisoned >= 0;
    course.scales.push_back(scale);
    course.skipped.push_back(skip);
    in_a_row = skip ? in_a_row + 1 : 0;
    updates += skip ? 0 : 1;
    if (skip) {
      scale *= kDynamic.backoff_factor;
      tracker = 0;
    } else if (++tracker == kDynamic.growth_interval) {
      scale *= kDynamic.growth_factor;
      tracker = 0;
    }
  }
  course.state = {.scale = scale, .clean_steps = tracker, .skipped_in_a_row = in_a_row, .updates = updates};
  return course;
}

class LossScaling : public ::testing::TestWithParam<PrecisionMode> {};

TEST_P(LossScaling, FollowsGradScalerOnEveryLayout) {
  const Course one = run({.mode = GetParam()});
  const Course expected = expected_course();
  EXPECT_EQ(one.scales, expected.scales);
  EXPECT_EQ(one.skipped, expected.skipped);
  EXPECT_EQ(one.state, expected.state);
  for (std::size_t i = 1; i < one.hashes.size(); ++i) {
    EXPECT_EQ(one.hashes[i] == one.hashes[i - 1], expected.skipped[i]) << "step " << i + 1;
  }
  for (const int ranks : {2, 4}) {
    for (const int zero : {0, 1, 3}) {
      EXPECT_TRUE(run({.mode = GetParam(), .ranks = ranks, .zero = zero}) == one)
          << ranks << " ranks, zero " << zero;
    }
  }
}

TEST_P(LossScaling, ResumesBitIdenticallyOnAnotherNumberOfRanks) {
  const std::uint64_t whole = run({.mode = GetParam()}).hashes.back();
  for (const bool with_scaler : {true, false}) {
    const testing::TemporaryFolder folder;
    LossScaleState saved;
    run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(model()), comm, options_for({.mode = GetParam(), .ranks = 2}));
      while (engine.steps_done() < 7) play(engine);  // the last one was skipped, the next will be
      save_state(engine, folder.path());
      const LossScaleState state = engine.loss_scale_state();
      if (comm->rank() == 0) saved = state;
    });
    std::uint64_t hash = 0;
    run_local_ranks(4, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(model()), comm, options_for({.mode = GetParam(), .ranks = 4, .zero = 3}));
      load_state(engine, folder.path(), StateParts::kAll);
      engine.set_steps_done(7);
      if (with_scaler) engine.set_loss_scale_state(saved);
      while (engine.steps_done() < static_cast<std::int64_t>(kPoisonedSample.size())) play(engine);
      const std::uint64_t mine = engine.state_hash();
      if (comm->rank() == 0) hash = mine;
    });
    EXPECT_EQ(hash == whole, with_scaler);  // without it, AdamW's bias correction counts the skipped steps
  }
}

TEST_P(LossScaling, TheCulpritIsNamed) {
  struct Case {
    int ranks, zero, rank;
  };
  const std::uint64_t undisturbed = run({.mode = GetParam()}).hashes.back();
  // Micro-batch 5 of 8: of the runs 0-1, 2-3, 4-5, 6-7, or of the rounds 0-3, 4-7.
  for (const Case& c : {Case{1, 0, 0}, Case{4, 0, 2}, Case{4, 3, 1}}) {
    run_local_ranks(c.ranks, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(model()), comm,
                    options_for({.mode = GetParam(), .ranks = c.ranks, .zero = c.zero}));
      StepResult result;
      while (!result.skipped) result = play(engine);
      EXPECT_EQ(result.step, 5);
      const std::uint64_t hash = engine.state_hash();
      const auto found = engine.find_non_finite_gradient(result, source_of(4), kTargets);
      EXPECT_TRUE(found.has_value());
      if (found) {
        EXPECT_EQ(to_string(*found), fmt::format("parameter 'embedding.tokens' of block 'head', micro-batch "
                                                 "5, on rank {}",
                                                 c.rank));
      }
      // The search changes nothing.
      EXPECT_EQ(engine.state_hash(), hash);
      while (engine.steps_done() < static_cast<std::int64_t>(kPoisonedSample.size())) play(engine);
      const std::uint64_t last = engine.state_hash();
      EXPECT_EQ(last, undisturbed);
    });
  }
}

thread_local bool poison_norm = false;

void poisoned_norm(const KernelContext& exec, const SquaredNormBlocksArgs& args) {
  cpu_backend().run(exec, args);
  if (poison_norm && args.x.num_elems() > 2048) *args.partials.as<float>() = std::nanf("");
}

TEST(LossScale, AnOverflowOfTheSumIsNamedWithoutAMicroBatch) {
  Backend backend = cpu_backend();
  backend.ops.set<SquaredNormBlocksArgs>(poisoned_norm);
  EngineOptions options = options_for({});
  options.backend = &backend;
  Engine engine(build_gpt(model()), LocalWorld(1).communicator(0), options);
  poison_norm = true;
  const StepResult result = play(engine);
  poison_norm = false;
  EXPECT_TRUE(result.skipped);
  const auto found = engine.find_non_finite_gradient(result, source_of(0), kTargets);
  ASSERT_TRUE(found.has_value());
  // The last block whose group is large enough for the fault.
  EXPECT_EQ(
      to_string(*found),
      "parameter 'blocks.1.attention.qkv.weight' of block 'blocks.1', in the sum over the micro-batches");
  play(engine);
  EXPECT_EQ(engine.find_non_finite_gradient(result, source_of(0), kTargets), std::nullopt);
}

// Scaling by powers of two is exact in fp32 without overflow.
TEST(LossScale, ChangesNoBitsInFp32) {
  EngineOptions options = options_for({}, {});
  std::vector<std::uint64_t> hashes;
  std::vector<float> norms;
  for (const float scale : {0.0f, 1024.0f, 0x1p60f}) {
    options.loss_scale = {.kind = scale > 0 ? LossScaleConfig::Kind::kStatic : LossScaleConfig::Kind::kOff,
                          .initial = scale > 0 ? scale : 1.0f};
    Engine engine(build_gpt(model()), LocalWorld(1).communicator(0), options);
    for (int step = 0; step < 3; ++step) norms.push_back(play(engine).grad_norm);
    hashes.push_back(engine.state_hash());
  }
  EXPECT_EQ(hashes[1], hashes[0]);
  EXPECT_EQ(hashes[2], hashes[0]);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(norms[i], norms[i + 3]);
}

TEST(LossScale, WithoutScalingANonFiniteStepIsSkippedToo) {
  const Course course = run({}, {});
  EXPECT_EQ(course.skipped, expected_course().skipped);
  EXPECT_EQ(course.scales, std::vector<float>(kPoisonedSample.size(), 1.0f));
  for (std::size_t i = 1; i < course.hashes.size(); ++i) {
    EXPECT_EQ(course.hashes[i] == course.hashes[i - 1], course.skipped[i]);
  }
}

// Counts calls in which a host waits for a device.
std::atomic<int> num_waits = 0;
void counted_synchronize(const KernelContext& exec) {
  ++num_waits;
  cpu_backend().synchronize(exec);
}
void counted_copy_to_host(const KernelContext& exec, void* dst, ConstTensorView src) {
  ++num_waits;
  cpu_backend().copy_to_host(exec, dst, src);
}

TEST_P(LossScaling, NoStepWaitsForTheDevice) {
  Backend backend = testing::poisoned_backend();
  backend.synchronize = counted_synchronize;
  backend.copy_to_host = counted_copy_to_host;
  for (const LayoutCase& layout :
       {LayoutCase{GetParam()}, LayoutCase{GetParam(), 2, 1}, LayoutCase{GetParam(), 2, 3}}) {
    run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
      EngineOptions options = options_for(layout);
      options.backend = &backend;
      options.layout.recompute_every = 1;
      Engine engine(build_gpt(model()), comm, options);
      comm->barrier();
      num_waits = 0;
      comm->barrier();
      for (int step = 0; step < 6; ++step) {  // skips included
        if (engine.num_pending() == StepRecords::kMaxPending) {
          comm->barrier();
          EXPECT_EQ(num_waits, 0) << "before step " << step + 1;
          comm->barrier();
          engine.collect();
          comm->barrier();
          EXPECT_GT(num_waits, 0) << "the counter does not count";
          comm->barrier();
          num_waits = 0;
          comm->barrier();
        }
        engine.enqueue_step(source_of(step), kTargets, 1e-2);
      }
      comm->barrier();
      EXPECT_EQ(num_waits, 0);
    });
  }
}

TEST(LossScale, ResultsAreTheSameAStepLater) {
  Engine at_once(build_gpt(model()), LocalWorld(1).communicator(0), options_for({}));
  Engine later(build_gpt(model()), LocalWorld(1).communicator(0), options_for({}));
  std::vector<StepResult> expected, results;
  for (std::size_t step = 0; step < kPoisonedSample.size(); ++step) {
    expected.push_back(play(at_once));
    later.enqueue_step(source_of(static_cast<std::int64_t>(step)), kTargets, 1e-2);
    if (later.num_pending() > 1) results.push_back(later.collect());
  }
  EXPECT_NE(
      testing::message_of([&] { later.step(source_of(0), kTargets, 1e-2); }).find("wait to be collected"),
      std::string::npos);
  results.push_back(later.collect());
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].step, static_cast<std::int64_t>(i + 1));
    EXPECT_EQ(results[i].loss, expected[i].loss);
    EXPECT_EQ(results[i].loss_scale, expected[i].loss_scale);
    EXPECT_EQ(results[i].skipped, expected[i].skipped);
    EXPECT_EQ(results[i].skipped_in_a_row, expected[i].skipped_in_a_row);
    EXPECT_EQ(results[i].memory.peak.bytes, expected[i].memory.peak.bytes);
    if (!results[i].skipped) {
      EXPECT_EQ(results[i].grad_norm, expected[i].grad_norm);
    }
  }
  EXPECT_EQ(later.state_hash(), at_once.state_hash());
  EXPECT_NE(testing::message_of([&] { later.collect(); }).find("no step is in flight"), std::string::npos);
  later.enqueue_step(source_of(0), kTargets, 1e-2);
  later.enqueue_step(source_of(0), kTargets, 1e-2);
  EXPECT_NE(testing::message_of([&] {
              later.enqueue_step(source_of(0), kTargets, 1e-2);
            }).find("collect the oldest one first"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Modes, LossScaling, ::testing::Values(PrecisionMode::kFp32, PrecisionMode::kFp16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace trireme

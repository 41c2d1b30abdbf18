// A network with running statistics: one mathematics on every layout, predicted memory, and saved state.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "runtime/ops/batch_norm.h"
#include "runtime/ops/cross_entropy.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_resnet.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 16, kMicroBatch = 2, kSteps = 6;

struct LayoutCase {
  int ranks = 1, zero = 0, recompute = 0;
  bool accumulate_unsharded = false, keep_gathered = false;
  int threads = 1;
  trireme::Layout pipeline;
  std::string to_string() const {
    return fmt::format(
        "{} ranks, zero {}, recompute {}, unsharded {}, kept gathered {}, {} threads, {} stages, {}, {} "
        "chunk(s)",
        ranks, zero, recompute, accumulate_unsharded, keep_gathered, threads, pipeline.pipeline,
        name(pipeline.schedule), pipeline.chunks);
  }
  trireme::Layout whole() const {
    trireme::Layout all = pipeline;
    all.zero = static_cast<ZeroStage>(zero);
    all.recompute_every = recompute;
    all.accumulate_unsharded = accumulate_unsharded;
    all.keep_gathered = keep_gathered;
    return all;
  }
};

// Two stages with every schedule.
std::vector<trireme::Layout> pipelines() {
  return {{.pipeline = 2, .schedule = PipelineSchedule::kGpipe},
          {.pipeline = 2},
          {.pipeline = 2, .schedule = PipelineSchedule::kInterleaved, .chunks = 2},
          {.pipeline = 2, .schedule = PipelineSchedule::kZeroBubbleH1}};
}

SampleSpec sample_spec() {
  return {
      .input = {testing::kTinyPixels, testing::kTinyPixels, 3}, .input_dtype = DType::kFloat32, .target = {}};
}

EngineOptions options_for(PrecisionMode mode, const LayoutCase& layout) {
  EngineOptions options{.threads = layout.threads,
                        .global_batch = kGlobalBatch,
                        .micro_batch = kMicroBatch,
                        .seed = 5,
                        .optimizer = {.kind = OptimizerConfig::Kind::kSgd,
                                      .weight_decay = 1e-3f,
                                      .momentum = 0.9f,
                                      .nesterov = true},
                        .grad_clip = 5.0f,
                        .layout = layout.whole(),
                        .sample = sample_spec(),
                        .precision = Precision(mode)};
  if (mode == PrecisionMode::kFp16) {
    // Too large at first: some steps are skipped.
    options.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic, .initial = 0x1p22f};
  }
  return options;
}

BatchSource source_at(std::int64_t step) {
  return testing::image_source(testing::kTinyPixels, testing::tiny_resnet_config().classes,
                               step * kGlobalBatch);
}

StepResult step(Engine& engine) {
  return engine.step(source_at(engine.steps_done()), kGlobalBatch, 0.05);
}

struct Outcome {
  std::uint64_t hash = 0;
  float loss = 0, eval_loss = 0;
  std::vector<float> statistics;
  int skipped = 0;
  bool operator==(const Outcome&) const = default;
};

using Visit = std::function<void(Engine&)>;

// Trains and returns the outcome; `first` may restore state before, `last` save it after.
Outcome run(PrecisionMode mode, const LayoutCase& layout, std::int64_t steps = kSteps,
            const Visit& first = {}, const Visit& last = {}) {
  Outcome outcome;
  run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_resnet(testing::tiny_resnet_config()), comm, options_for(mode, layout));
    if (first) first(engine);
    Outcome mine;
    while (engine.steps_done() < steps) {
      const StepResult result = step(engine);
      mine.skipped += result.skipped;
      mine.loss = result.loss;
    }
    mine.hash = engine.state_hash();
    mine.eval_loss = engine.evaluate(source_at(99), 7, 7);
    mine.statistics = engine.statistics().whole();
    if (last) last(engine);
    if (comm->rank() == 0) outcome = mine;
  });
  return outcome;
}

class ResNetLayouts : public ::testing::TestWithParam<PrecisionMode> {};

TEST_P(ResNetLayouts, EveryLayoutGivesTheSameState) {
  const Outcome expected = run(GetParam(), {});
  EXPECT_TRUE(std::isfinite(expected.eval_loss));
  if (GetParam() == PrecisionMode::kFp16) {
    EXPECT_GT(expected.skipped, 0);
    EXPECT_LT(expected.skipped, kSteps - 1);
  }
  for (const LayoutCase& layout :
       {LayoutCase{.ranks = 1, .recompute = 2}, LayoutCase{.ranks = 1, .zero = 3},
        LayoutCase{.ranks = 1, .threads = 3}, LayoutCase{.ranks = 2, .zero = 2, .recompute = 1},
        LayoutCase{.ranks = 4, .zero = 1}, LayoutCase{.ranks = 4, .zero = 3, .recompute = 2},
        LayoutCase{.ranks = 4, .zero = 3, .accumulate_unsharded = true},
        LayoutCase{
            .ranks = 2, .zero = 3, .recompute = 1, .accumulate_unsharded = true, .keep_gathered = true},
        LayoutCase{.ranks = 4, .zero = 3, .keep_gathered = true}, LayoutCase{.ranks = 8, .zero = 2}}) {
    EXPECT_TRUE(run(GetParam(), layout) == expected) << layout.to_string();
  }
}

TEST_P(ResNetLayouts, StagesGiveTheSameState) {
  const Outcome expected = run(GetParam(), {});
  for (const trireme::Layout& pipeline : pipelines()) {
    for (const int data : {1, 2}) {
      for (const int zero : {0, 1, 2, 3}) {
        for (const int recompute : {0, 1}) {
          const LayoutCase layout{
              .ranks = 2 * data, .zero = zero, .recompute = recompute, .pipeline = pipeline};
          EXPECT_TRUE(run(GetParam(), layout) == expected) << layout.to_string();
        }
      }
    }
  }
}

// A stage may have no statistics: the last one has only the head.
TEST_P(ResNetLayouts, AStageMayHaveNoStatistics) {
  const LayoutCase layout{.ranks = 4, .zero = 1, .pipeline = {.pipeline = 2, .cut = {4}}};
  EXPECT_TRUE(run(GetParam(), layout) == run(GetParam(), {})) << layout.to_string();
}

TEST_P(ResNetLayouts, ResumesUnderAnotherLayout) {
  const Outcome expected = run(GetParam(), {});
  const std::vector<LayoutCase> layouts = {{.ranks = 2, .zero = 3},
                                           {.ranks = 1},
                                           {.ranks = 4, .zero = 1, .pipeline = pipelines()[2]},
                                           {.ranks = 2, .pipeline = pipelines()[0]}};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const LayoutCase &writer = layouts[i], &reader = layouts[(i + 1) % layouts.size()];
    const testing::TemporaryFolder folder;
    LossScaleState scale;
    const Outcome half = run(GetParam(), writer, kSteps / 2, {}, [&](Engine& engine) {
      save_state(engine, folder.path());
      const LossScaleState state = engine.loss_scale_state();
      if (engine.communicator().rank() == 0) scale = state;
    });
    EXPECT_NE(half.statistics, expected.statistics);
    Outcome resumed = run(GetParam(), reader, kSteps, [&](Engine& engine) {
      load_state(engine, folder.path(), StateParts::kAll);
      engine.set_steps_done(kSteps / 2);
      engine.set_loss_scale_state(scale);
    });
    resumed.skipped += half.skipped;
    EXPECT_TRUE(resumed == expected) << writer.to_string() << " -> " << reader.to_string();
  }
}

TEST_P(ResNetLayouts, MemoryIsAsPredicted) {
  const auto blocks = std::make_shared<const BlockList>(build_resnet(testing::tiny_resnet_config()));
  for (const LayoutCase& layout :
       {LayoutCase{}, LayoutCase{.ranks = 2, .zero = 3, .recompute = 2}, LayoutCase{.ranks = 4},
        LayoutCase{.ranks = 2, .recompute = 1, .pipeline = pipelines()[1]},
        LayoutCase{.ranks = 4, .zero = 2, .pipeline = pipelines()[2]},
        LayoutCase{.ranks = 4, .zero = 3, .recompute = 1, .pipeline = pipelines()[3]}}) {
    run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
      EngineOptions options = options_for(GetParam(), layout);
      options.data_cache_bytes = 100000;  // not a multiple of the allocation unit
      const StepPrediction predicted =
          predict_step(blocks, options, sample_spec(), layout.ranks, comm->rank());
      EXPECT_EQ(predicted.memory.peak[MemoryCategory::kData], 100032) << layout.to_string();
      Engine engine(blocks, comm, options);
      EXPECT_EQ(engine.data_cache().size_bytes(), 100000u);
      for (int i = 0; i < 2; ++i) {
        const StepResult result = step(engine);
        EXPECT_EQ(result.sent_bytes, predicted.sent_bytes) << layout.to_string();
        for (int c = 0; c < kNumMemoryCategories; ++c) {
          const auto category = static_cast<MemoryCategory>(c);
          if (category == MemoryCategory::kWorkspace) continue;
          EXPECT_EQ(result.memory.peak[category], predicted.memory.peak[category])
              << layout.to_string() << ", " << name(category);
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ResNetLayouts, ::testing::Values(PrecisionMode::kFp32, PrecisionMode::kFp16),
                         [](const auto& info) { return std::string(name(info.param)); });

// A block whose statistic is the mean of its micro-batch, so that its values can be computed in advance.
class Watcher final : public Block {
 public:
  Watcher() : Block("watcher") {
    weight_ = declare({.name = "w", .shape = {4}, .init = Initializer::ones(), .decay = false});
    bias_ = declare({.name = "b", .shape = {4}, .init = Initializer::zeros(), .decay = false});
    mean_ = declare_statistic({.name = "mean", .shape = {4}, .initial = 3.0f, .momentum = 0.25f});
    variance_ = declare_statistic({.name = "variance", .shape = {4}, .initial = 1.0f});
  }
  Activations forward(Context& ctx, const Activations&, const Batch& batch) const override {
    const Tensor y =
        ops::batch_norm(ctx, batch.inputs, weight_, bias_, {.mean = mean_, .variance = variance_});
    return {ops::softmax_cross_entropy(ctx, y, batch.targets, batch.inv_num_targets)};
  }

 private:
  ParamRef weight_, bias_;
  StatisticRef mean_, variance_;
};

TEST(RunningStatistics, MoveByAllMicroBatchesInGlobalOrder) {
  const auto value_of = [](std::int64_t sample) { return static_cast<float>((sample * 37) % 11); };
  const BatchSource source = [&](std::int64_t first, std::int64_t count) {
    HostBatch batch{.input_shape = {count, 4}, .target_shape = {count}, .input_dtype = DType::kFloat32};
    batch.targets.assign(static_cast<std::size_t>(count), 1);
    std::vector<float> inputs;
    for (std::int64_t s = 0; s < count; ++s) inputs.insert(inputs.end(), 4, value_of(first + s));
    batch.inputs.resize(inputs.size() * sizeof(float));
    std::memcpy(batch.inputs.data(), inputs.data(), batch.inputs.size());
    return batch;
  };
  double mean = 3.0, variance = 1.0;
  for (std::int64_t g = 0; g < 8; ++g) {
    const double a = value_of(2 * g), b = value_of(2 * g + 1);
    mean = 0.75 * mean + 0.25 * (a + b) / 2;
    variance = 0.9 * variance + 0.1 * (a - b) * (a - b) / 2;  // unbiased
  }
  for (const LayoutCase& layout : {LayoutCase{}, LayoutCase{.ranks = 2, .zero = 2}, LayoutCase{.ranks = 4}}) {
    run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
      BlockList blocks;
      blocks.push_back(std::make_unique<Watcher>());
      Engine engine(std::move(blocks), comm, options_for(PrecisionMode::kFp32, layout));
      engine.step(source, kGlobalBatch, 0.0);
      const std::vector<float> values = engine.context().to_host(engine.statistics().values());
      ASSERT_EQ(engine.statistics().entries().size(), 2u);
      EXPECT_EQ(engine.statistics().entries()[0].name, "watcher.mean");
      EXPECT_NEAR(values[0], mean, 1e-5);
      EXPECT_NEAR(values[static_cast<std::size_t>(engine.statistics().entries()[1].offset)], variance, 1e-4);
    });
  }
}

}  // namespace
}  // namespace trireme

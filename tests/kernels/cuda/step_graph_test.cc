// Whole steps that are recorded once and replayed, in the emulation, where a graph is the list of enqueued
// work. A replayed step has the same bits and memory as an enqueued one, and needs a single launch.
#include "parallel/run/step_graph.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/bert.h"
#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kGlobalBatch = 2;
constexpr int kSteps = 5;
// Small even for a test, because emulated kernels are slow.
const GptConfig kModel{.layers = 1, .hidden = 16, .heads = 2, .vocab = 19, .seq_len = 8};

EngineOptions options(bool cuda_graph, DeviceType device = DeviceType::kCuda) {
  return {.device = {device, 0},
          .global_batch = kGlobalBatch,
          .micro_batch = 1,
          .seed = 5,
          .optimizer = {.weight_decay = 0.1f},
          .grad_clip = 0.5f,
          .cuda_graph = cuda_graph};
}

struct TrainingRun {
  GptConfig config = kModel;
  Engine engine;

  explicit TrainingRun(const EngineOptions& o)
      : engine(build_gpt(config), LocalWorld(1).communicator(0), o) {}

  void enqueue(int index, std::int64_t num_targets = 0) {
    if (num_targets == 0) num_targets = kGlobalBatch * config.seq_len;
    const double lr = 1e-2 / (1 + index);  // different in each step
    engine.enqueue_step(testing::token_source(config.vocab, config.seq_len, index * kGlobalBatch),
                        num_targets, lr);
  }
  StepResult step(int index, std::int64_t num_targets = 0) {
    enqueue(index, num_targets);
    return engine.collect();
  }
  float evaluate() {
    return engine.evaluate(testing::token_source(config.vocab, config.seq_len, 1000), 6, 6 * config.seq_len);
  }
};

void expect_equal(const StepResult& played, const StepResult& enqueued, int step) {
  EXPECT_EQ(played.loss, enqueued.loss) << "step " << step;
  if (!std::isfinite(enqueued.grad_norm)) return;  // a skipped step
  EXPECT_EQ(played.grad_norm, enqueued.grad_norm) << "step " << step;
}

TEST(StepGraph, PlaysTheBitsOfEnqueuedSteps) {
  TrainingRun graph(options(true)), plain(options(false));
  for (int i = 0; i < kSteps; ++i) {
    const auto before = emulation::counts();
    const StepResult played = graph.step(i);
    const auto after = emulation::counts();
    EXPECT_EQ(after.graphs - before.graphs, i < 2 ? 0 : 1) << "step " << i;
    if (i > 2) {
      EXPECT_EQ(after.launches, before.launches) << "step " << i;
    }
    expect_equal(played, plain.step(i), i);
  }
  EXPECT_EQ(graph.engine.state_hash(), plain.engine.state_hash());
}

// Work between steps allocates and frees memory. None of it may be in the graph's pool.
TEST(StepGraph, WorkBetweenStepsDisturbsNothing) {
  TrainingRun graph(options(true)), plain(options(false));
  for (int i = 0; i < kSteps; ++i) {
    // More than a segment of small blocks, in sizes that fit every gap left by a step.
    std::vector<Tensor> kept;
    for (int piece = 0; piece < 200; ++piece) {
      kept.push_back(graph.engine.context().zeros({std::int64_t{64} << (2 * (piece % 5))}));
    }
    expect_equal(graph.step(i), plain.step(i), i);
    EXPECT_EQ(graph.evaluate(), plain.evaluate()) << "step " << i;
    EXPECT_EQ(graph.engine.state_hash(), plain.engine.state_hash());
    for (const Tensor& tensor : kept) {
      for (const float value : graph.engine.context().to_host(tensor)) ASSERT_EQ(value, 0.0f) << "step " << i;
    }
  }
}

TEST(StepGraph, AnotherCountOfTargetsStartsOver) {
  TrainingRun graph(options(true)), plain(options(false));
  for (int i = 0; i < 2 * kSteps; ++i) {
    const std::int64_t targets = i < kSteps ? 16 : 10;
    const auto before = emulation::counts();
    expect_equal(graph.step(i, targets), plain.step(i, targets), i);
    const bool plays = i % kSteps >= 2;
    EXPECT_EQ(emulation::counts().graphs - before.graphs, plays ? 1 : 0) << "step " << i;
  }
  EXPECT_EQ(graph.engine.state_hash(), plain.engine.state_hash());
}

// The first scale is far too large, so steps are skipped until it fits. Then it grows every second step.
EngineOptions in_fp16(bool cuda_graph) {
  EngineOptions o = options(cuda_graph);
  o.precision = Precision(PrecisionMode::kFp16);
  o.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic,
                  .initial = 0x1p24f,
                  .backoff_factor = 0x1p-5f,
                  .growth_interval = 2};
  return o;
}

// The scale and the number of updates are in device memory, so they advance in replayed steps.
TEST(StepGraph, PlaysLossScaling) {
  TrainingRun graph(in_fp16(true)), plain(in_fp16(false));
  int skipped = 0;
  for (int i = 0; i < 8; ++i) {
    const StepResult played = graph.step(i), enqueued = plain.step(i);
    expect_equal(played, enqueued, i);
    EXPECT_EQ(played.loss_scale, enqueued.loss_scale) << "step " << i;
    EXPECT_EQ(played.skipped, enqueued.skipped) << "step " << i;
    skipped += enqueued.skipped ? 1 : 0;
  }
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, 8);
  EXPECT_EQ(graph.engine.state_hash(), plain.engine.state_hash());
}

TEST(StepGraph, ObservedStepsAreEnqueued) {
  TrainingRun graph(options(true)), plain(options(false));
  for (int i = 0; i < 4; ++i) expect_equal(graph.step(i), plain.step(i), i);
  int observed = 0;
  graph.engine.observe_gradients([&](const std::string&, const Tensor&) { ++observed; });
  expect_equal(graph.step(4), plain.step(4), 4);
  EXPECT_GT(observed, 0);
  graph.engine.observe_gradients(nullptr);
  for (int i = 5; i < 9; ++i) expect_equal(graph.step(i), plain.step(i), i);
}

TEST(StepGraph, MemoryIsWhatWasPredicted) {
  TrainingRun graph(options(true));
  const auto blocks = std::make_shared<const BlockList>(build_gpt(graph.config));
  const SampleSpec sample{.input = {graph.config.seq_len}, .target = {graph.config.seq_len}};
  const StepPrediction prediction = predict_step(blocks, options(true), sample, 1, 0);
  for (int i = 0; i < kSteps; ++i) {
    const StepResult result = graph.step(i);
    EXPECT_EQ(result.memory.peak_total, prediction.memory.peak_total) << "step " << i;
  }
}

struct Head {
  const char* name;
  std::function<BlockList()> build;
  std::int64_t target_positions = 0;  // of a sample
};

// Tokens 1 and 5 of each sample have targets, if `positions` is 2.
BatchSource source_of(std::int64_t vocab, std::int64_t first_sample, std::int64_t positions) {
  return [tokens = testing::token_source(vocab, kModel.seq_len, first_sample), positions](
             std::int64_t first, std::int64_t count) {
    HostBatch batch = tokens(first, count);
    for (std::size_t i = 0; positions > 0 && i < batch.targets.size(); ++i) {
      if (i % static_cast<std::size_t>(kModel.seq_len) % 4 != 1) batch.targets[i] = -1;
    }
    for (std::int64_t i = 0; positions > 0 && i < count; ++i) {
      batch.target_positions.insert(batch.target_positions.end(), {1, 5});
    }
    return batch;
  };
}

// Vocabularies that are odd and long enough for rows of logits that are apart: see [Note: rows of logits].
constexpr std::int64_t kOddVocab = 517;

// Heads on target rows alone, with rows of logits apart, and with logits in parts: the same bits recorded and
// enqueued, the predicted memory, and nearly the results of the CPU.
TEST(StepGraph, PlaysHeadsOfOddVocabularies) {
  const auto gpt = [](std::int64_t loss_parts) {
    return [loss_parts] {
      GptConfig config = kModel;
      config.vocab = kOddVocab, config.loss_parts = loss_parts;
      return build_gpt(config);
    };
  };
  const auto bert = [] {
    return build_bert({.layers = 1, .hidden = 16, .heads = 2, .vocab = kOddVocab, .seq_len = kModel.seq_len});
  };
  for (const Head& head : {Head{"gpt", gpt(1)}, Head{"in parts", gpt(3)}, Head{"bert", bert, 2}}) {
    for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
      SCOPED_TRACE(fmt::format("{} {}", head.name, name(mode)));
      const std::int64_t per_sample = head.target_positions > 0 ? head.target_positions : kModel.seq_len;
      const SampleSpec sample{
          .input = {kModel.seq_len}, .target = {kModel.seq_len}, .target_positions = head.target_positions};
      const auto run = [&](bool cuda_graph, DeviceType device) {
        EngineOptions o = options(cuda_graph, device);
        o.precision = Precision(mode);
        Engine engine(head.build(), LocalWorld(1).communicator(0), o);
        const StepPrediction prediction =
            predict_step(std::make_shared<const BlockList>(head.build()), o, sample, 1, 0);
        std::vector<float> losses;
        for (int i = 0; i < kSteps; ++i) {
          const StepResult result = engine.step(source_of(kOddVocab, i * kGlobalBatch, head.target_positions),
                                                kGlobalBatch * per_sample, 1e-2);
          losses.push_back(result.loss);
          EXPECT_EQ(result.memory.peak_total, prediction.memory.peak_total) << "step " << i;
        }
        return std::pair(losses, engine.state_hash());
      };
      const auto played = run(true, DeviceType::kCuda);
      EXPECT_EQ(played, run(false, DeviceType::kCuda));
      const std::vector<float> expected = run(false, DeviceType::kCpu).first;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(played.first[i], expected[i], mode == PrecisionMode::kFp32 ? 1e-4 : 3e-2);
      }
    }
  }
}

TEST(StepGraph, CpuStepsAreEnqueuedWithTheSameResult) {
  TrainingRun graph(options(true, DeviceType::kCpu)), plain(options(false, DeviceType::kCpu));
  for (int i = 0; i < 4; ++i) expect_equal(graph.step(i), plain.step(i), i);
  EXPECT_EQ(graph.engine.state_hash(), plain.engine.state_hash());
}

std::string refusal(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return "";
}

// Masks depend on the step number, which a recorded step reads from device memory.
TEST(StepGraph, PlaysDropout) {
  GptConfig config = kModel;
  config.dropout = 0.3f;
  const auto hashes_of = [&](const EngineOptions& o) {
    Engine engine(build_gpt(config), LocalWorld(1).communicator(0), o);
    std::vector<std::uint64_t> hashes;
    for (int i = 0; i < kSteps; ++i) {
      engine.step(testing::token_source(config.vocab, config.seq_len, i * kGlobalBatch),
                  kGlobalBatch * config.seq_len, 1e-2);
      hashes.push_back(engine.state_hash());
    }
    EXPECT_EQ(o.cuda_graph, engine.step_graph() != nullptr && engine.step_graph()->replayed());
    return hashes;
  };
  const auto enqueued = hashes_of(options(false));
  EXPECT_EQ(hashes_of(options(true)), enqueued);
  config.dropout = 0.0f;
  EXPECT_NE(hashes_of(options(true)), enqueued);
}

// Ranks that are threads exchange data through the host, which no graph records.
TEST(StepGraph, CommunicatorsThatAreNotRecordedAreRefused) {
  const auto start = [](DeviceType device) {
    run_local_ranks(2, [device](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(kModel), comm, options(true, device));
    });
  };
  start(DeviceType::kCpu);  // on the cpu, every step is enqueued
  EXPECT_THAT(refusal([&] { start(DeviceType::kCuda); }), HasSubstr("the communicator \"local\" of 2 ranks"));
}

// No host synchronisation inside a step, skipped or not. Only reading its result waits.
void expect_no_waits(const EngineOptions& options, bool skips) {
  TrainingRun run(options);
  int skipped = 0;
  for (int i = 0; i < 4; ++i) {
    const auto before = emulation::counts();
    run.enqueue(i);
    const auto after = emulation::counts();
    EXPECT_GT(after.launches, before.launches);
    if (i > 0) {  // in the first step, libraries make handles and memory comes from the card
      EXPECT_EQ(after.waits, before.waits) << "step " << i;
      EXPECT_EQ(after.mallocs, before.mallocs) << "step " << i;
    }
    skipped += run.engine.collect().skipped ? 1 : 0;
    EXPECT_GT(emulation::counts().waits, after.waits);
  }
  EXPECT_EQ(skipped > 0 && skipped < 4, skips) << skipped;
}

TEST(Synchronisation, AStepWaitsForNothing) {
  expect_no_waits(options(false), false);
}

TEST(Synchronisation, AScaledStepWaitsForNothing) {
  expect_no_waits(in_fp16(false), true);
}

// The result of a step is read while the next one runs. That is one wait, for the event behind the first
// step. A wait for the stream would be one for both steps.
TEST(Synchronisation, ReadingAResultWaitsForItsStepAlone) {
  for (const bool recorded : {false, true}) {
    TrainingRun late(options(recorded)), plain(options(false));
    late.enqueue(0);
    for (int i = 1; i < kSteps; ++i) {
      late.enqueue(i);
      const auto before = emulation::counts();
      const StepResult result = late.engine.collect();
      const auto after = emulation::counts();
      EXPECT_EQ(after.waits - before.waits, 1) << "step " << i - 1;
      EXPECT_EQ(after.event_waits - before.event_waits, 1) << "step " << i - 1;
      expect_equal(result, plain.step(i - 1), i - 1);
    }
  }
}

}  // namespace
}  // namespace trireme

// [Note: kept codes]: the number of quantizations of a step, equal bits, and predicted memory.
#include <gtest/gtest.h>

#include <mutex>

#include "models/llama.h"
#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 8, kLayers = 2;
int num_quantized = 0;

LlamaConfig model() {
  return {.layers = kLayers, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 80, .vocab = 61, .seq_len = 16};
}

SampleSpec sample() {
  return {.input = {model().seq_len}, .target = {model().seq_len}};
}

EngineOptions options_for(int micro_batch, const Layout& layout) {
  EngineOptions options{
      .global_batch = kGlobalBatch, .micro_batch = micro_batch, .seed = 9, .layout = layout};
  options.precision = Precision(PrecisionMode::kFp8);
  options.sample = sample();
  return options;
}

StepResult step(Engine& engine) {
  const LlamaConfig config = model();
  return engine.step(
      trireme::testing::token_source(config.vocab, config.seq_len, engine.steps_done() * kGlobalBatch),
      kGlobalBatch * config.seq_len, 1e-2);
}

Backend counting_backend() {
  Backend backend = cpu_backend();
  backend.ops.set<QuantizeArgs>([](const KernelContext& exec, const QuantizeArgs& args) {
    ++num_quantized;
    cpu_backend().run(exec, args);
  });
  return backend;
}

// Per layer: the inputs of all products but the last, whose codes SwiGLU writes, and the gradients of all but
// the one that SwiGLU's gradient writes. Weights: both orders, once.
TEST(KeptCodes, AWeightIsQuantizedOnceAStepAndOrder) {
  const Backend backend = counting_backend();
  for (const int micro_batch : {8, 4, 1}) {
    const std::int64_t micro_batches = kGlobalBatch / micro_batch;
    run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
      EngineOptions options = options_for(micro_batch, {});
      options.backend = &backend;
      Engine engine(build_llama(model()), comm, options);
      for (int i = 0; i < 2; ++i) {
        num_quantized = 0;
        step(engine);
        EXPECT_EQ(num_quantized, kLayers * (6 * micro_batches + 8)) << micro_batch;
      }
    });
  }
}

TEST(KeptCodes, EveryLayoutGivesTheSameStateInPredictedMemory) {
  const auto blocks = std::make_shared<const BlockList>(build_llama(model()));
  std::uint64_t expected = 0;
  struct Case {
    int ranks;
    Layout layout;
  };
  constexpr auto kZero3 = ZeroStage::kParameters;
  for (const Case& c :
       {Case{1, {}}, Case{1, {.recompute_every = 1}}, Case{2, {.zero = kZero3}},
        Case{2, {.zero = kZero3, .recompute_every = 1}}, Case{2, {.zero = kZero3, .keep_gathered = true}},
        Case{2, {.pipeline = 2}}, Case{8, {}}}) {
    const EngineOptions options = options_for(1, c.layout);
    std::mutex mutex;
    run_local_ranks(c.ranks, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(blocks, comm, options);
      const StepPrediction predicted = predict_step(blocks, options, sample(), c.ranks, comm->rank());
      for (int i = 0; i < 2; ++i) {
        StepResult measured = step(engine);
        measured.memory.peak[MemoryCategory::kWorkspace] = 0;
        const std::lock_guard lock(mutex);
        EXPECT_EQ(measured.memory.peak.bytes, predicted.memory.peak.bytes) << c.ranks;
        EXPECT_EQ(measured.memory.peak_total, predicted.memory.peak_total) << c.ranks;
      }
      const std::uint64_t hash = engine.state_hash();
      const std::lock_guard lock(mutex);
      if (expected == 0) expected = hash;
      EXPECT_EQ(hash, expected) << c.ranks;
    });
  }
}

}  // namespace
}  // namespace trireme

// Low-rank adapters of models in tensor chunks, with and without frozen weights in four bits: the same bits
// on every layout, with predicted memory and traffic.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "models/bert.h"
#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "tests/support/adapted_model.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tensor_layout.h"

namespace trireme {
namespace {

using testing::adapter_rules, testing::ChunkedJob, testing::RunOutcome, testing::sampled;
using Layout = testing::TensorLayout;
using Build = testing::BuildModel;
using enum PrecisionMode;

constexpr ChunkedJob kJob{.global_batch = 12, .micro_batch = 3, .steps = 3, .seq_len = 8};

Build adapted(const Build& build, const std::string& part = "") {
  return [build, part](bool tied) { return testing::adapted(build(tied), part); };
}

const Layout kLayouts[] = {
    {.tensor = 2},
    {.tensor = 8},
    {.tensor = 2, .data = 4, .zero = 2},
    {.tensor = 4, .data = 2, .zero = 3, .recompute = 2},
    {.tensor = 2, .data = 2, .zero = 1, .pipeline = {.pipeline = 2}},
    {.tensor = 2, .recompute = 1, .pipeline = {.pipeline = 2, .schedule = PipelineSchedule::kZeroBubbleH1}},
    {.tensor = 4, .inside = Recompute::kSelective},
    {.tensor = 8, .sequence = true},
    {.tensor = 2, .data = 2, .zero = 3, .recompute = 1, .sequence = true},
    {.tensor = 4,
     .pipeline = {.pipeline = 2, .schedule = PipelineSchedule::kZeroBubbleH1},
     .inside = Recompute::kSelective,
     .sequence = true}};

const Build kGpt = [](bool tied) { return build_gpt(kJob.gpt(tied)); };
const Build kLlama = [](bool tied) { return build_llama(kJob.llama(tied)); };

class AdapterLayouts : public ::testing::TestWithParam<PrecisionMode> {
 protected:
  static void check(const Build& build, bool quantizes = false, int most_tensor_ranks = 8) {
    const ParameterRules rules = adapter_rules(quantizes);
    const RunOutcome expected = kJob.run(build, GetParam(), true, {}, rules);
    EXPECT_TRUE(std::isfinite(expected.eval_loss));
    for (const Layout& layout : sampled(kLayouts, 3)) {
      if (layout.tensor > most_tensor_ranks) continue;
      EXPECT_TRUE(kJob.run(build, GetParam(), true, layout, rules) == expected) << layout.to_string();
    }
  }
};

TEST_P(AdapterLayouts, OfGpts) {
  check(adapted(kGpt));
}

// One more sum for two kinds of shared parameters: adapters, and the gains of heads.
TEST_P(AdapterLayouts, OfNormedHeads) {
  check(adapted(kJob.qwen3()));
}

TEST_P(AdapterLayouts, OfGemmas) {
  check(adapted(kJob.gemma3()));
}

TEST_P(AdapterLayouts, OfFourBitWeights) {
  check(adapted(kJob.qwen3()), true);
  check(adapted(kGpt, "mlp"), true);
}

// Sums of a chunk in two groups.
TEST_P(AdapterLayouts, OfHeadsThatGroupsDoNotDivide) {
  check(adapted(kJob.llama_with(
            [](LlamaConfig& config) { config.hidden = 48, config.heads = 12, config.kv_heads = 6; })),
        true, 2);
}

INSTANTIATE_TEST_SUITE_P(Precisions, AdapterLayouts, ::testing::Values(kFp32, kTf32, kFp16, kBf16),
                         [](const auto& info) { return std::string(name(info.param)); });

// The sums of shared factors follow those of their layers.
TEST(AdapterLayouts, OfSomeLayers) {
  for (const char* part : {"attention.qkv", "attention.out", "mlp.gate_up", "mlp.down"}) {
    const Build build = adapted(kLlama, part);
    const RunOutcome expected = kJob.run(build, kBf16, true, {}, adapter_rules());
    EXPECT_TRUE(std::isfinite(expected.eval_loss));
    for (const Layout& layout : {kLayouts[1], kLayouts[5], kLayouts[9]})
      EXPECT_TRUE(kJob.run(build, kBf16, true, layout, adapter_rules()) == expected) << layout.to_string();
  }
}

// Every tensor rank has the whole head, whose inner layer is adapted, too, and gathers its rows.
TEST(AdapterLayouts, OfBerts) {
  const Build bert = adapted([](bool) {
    return build_bert({.layers = 4,
                       .hidden = 32,
                       .heads = 8,
                       .vocab = ChunkedJob::kVocab,
                       .seq_len = kJob.seq_len,
                       .dropout = 0.1f,
                       .tensor_chunks = ChunkedJob::kChunks});
  });
  const RunOutcome expected = kJob.run(bert, kBf16, true, {}, adapter_rules());
  EXPECT_TRUE(std::isfinite(expected.eval_loss));
  for (const Layout& layout : sampled(kLayouts, 3))
    EXPECT_TRUE(kJob.run(bert, kBf16, true, layout, adapter_rules()) == expected) << layout.to_string();
}

EngineOptions sgd_options(const Layout& layout) {
  EngineOptions options = kJob.options(kFp32, layout);
  options.optimizer = {.kind = OptimizerConfig::Kind::kSgd};
  options.grad_clip = 0.0f;
  options.rules = adapter_rules();
  return options;
}

std::map<std::string, std::vector<float>> trained(const Build& build) {
  std::map<std::string, std::vector<float>> values;
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build(false), comm, sgd_options({}));
    for (int step = 0; step < 4; ++step) {
      engine.step(testing::token_source(ChunkedJob::kVocab, kJob.seq_len, step * kJob.global_batch),
                  kJob.global_batch * kJob.seq_len, 2.0);
    }
    visit_model(engine, [&](const std::string& name, std::uint64_t first, std::span<const float> run) {
      std::vector<float>& all = values[name];
      all.resize(std::max(all.size(), static_cast<std::size_t>(first) + run.size()));
      std::ranges::copy(run, all.begin() + static_cast<std::ptrdiff_t>(first));
    });
  });
  return values;
}

// The cut of the sums changes only the last bits of adapters.
TEST(AdapterLayouts, ChunksTrainLikeTheWhole) {
  const auto model = [](int chunks) {
    return adapted(kJob.llama_with(
        [chunks](LlamaConfig& config) { config.qk_norm = QkNorm::kHead, config.tensor_chunks = chunks; }));
  };
  const auto whole = trained(model(1));
  for (const int chunks : {2, 8}) {
    const auto cut = trained(model(chunks));
    ASSERT_EQ(cut.size(), whole.size());
    for (const auto& [name, values] : cut) {
      const std::vector<float>& expected = whole.at(name);
      ASSERT_EQ(values.size(), expected.size()) << name;
      float largest = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(values[i], expected[i], 2e-6) << name << " " << i;
        largest = std::max(largest, std::abs(values[i]));
      }
      EXPECT_TRUE(largest > 1e-3 || !name.ends_with(kAdapterB)) << name << " " << largest;
    }
  }
}

// Stopped after two steps on one layout, and continued on another, with weights in four bits.
TEST(AdapterLayouts, CheckpointsResumeOnAnyOther) {
  const Build build = adapted(kJob.qwen3());
  const auto options = [](const Layout& layout) {
    EngineOptions chosen = kJob.options(kBf16, layout);
    chosen.rules = adapter_rules(true);
    return chosen;
  };
  const RunOutcome expected = kJob.run(build, kBf16, true, {}, adapter_rules(true));
  for (const Layout& from : {Layout{}, kLayouts[1], kLayouts[4], kLayouts[8]}) {
    const testing::TemporaryFolder folder;
    run_local_ranks(from.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build(true), comm, options(from));
      kJob.train(engine, kJob.steps - 1);
      save_state(engine, folder.path());
    });
    for (const Layout& to : {Layout{}, kLayouts[2], kLayouts[9]}) {
      run_local_ranks(to.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
        Engine engine(build(true), comm, options(to));
        load_state(engine, folder.path(), StateParts::kAll);
        engine.set_steps_done(kJob.steps - 1);
        kJob.train(engine, kJob.steps);
        EXPECT_EQ(engine.state_hash(), expected.hash) << from.to_string() << " -> " << to.to_string();
      });
    }
  }
}

}  // namespace
}  // namespace trireme

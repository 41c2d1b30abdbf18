// Frozen parameters, and factors of learning rate and weight decay by name: their effect on a model, their
// memory, and that no layout changes the result.
#include "parallel/layout/parameter_rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "tests/support/pipeline_layout.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::PipelineLayout;

TEST(ParameterRules, PatternsMatchWholeNames) {
  for (const char* pattern : {"embedding.tokens", "embedding*", "*tokens", "*", "e*.*s", "embedding.token?",
                              "**dd*g.*", "?mbedding.tokens*"}) {
    EXPECT_TRUE(matches_pattern(pattern, "embedding.tokens")) << pattern;
  }
  for (const char* pattern : {"", "embedding", "tokens", "embedding.tokens?", "*token", "e*x*s", "EMBEDDING*",
                              "?embedding.tokens"}) {
    EXPECT_FALSE(matches_pattern(pattern, "embedding.tokens")) << pattern;
  }
  EXPECT_TRUE(matches_pattern("*ab", "aab"));
  EXPECT_TRUE(matches_pattern("*", ""));
}

TEST(ParameterRules, TheLongestPatternCounts) {
  const ParameterRules rules{.lr_scale = {{"*", 0.5}, {"head*", 3.0}},
                             .decay_scale = {{"*bias", 2.0}, {"h*", 0.25}}};
  const ParameterSpec matrix{.name = "weight"}, bias{.name = "bias", .decay = false};
  EXPECT_EQ(rule_of(rules, matrix, "head.weight").lr_scale, 3.0f);
  EXPECT_EQ(rule_of(rules, matrix, "embedding.weight").lr_scale, 0.5f);
  EXPECT_EQ(rule_of(rules, bias, "head.bias").decay, 2.0f);
  EXPECT_EQ(rule_of(rules, matrix, "head.weight").decay, 0.25f);
  EXPECT_EQ(rule_of(rules, matrix, "tail.weight").decay, 1.0f);
  EXPECT_EQ(rule_of(rules, bias, "tail.beta").decay, 0.0f);
}

TEST(ParameterRules, WhatCannotBeIsRefused) {
  const BlockList blocks = build_gpt(testing::tiny_gpt_config());
  EXPECT_THROW(make_layout(blocks, 0, {}, {.frozen = {"embeding*"}}), Error);
  EXPECT_THROW(make_layout(blocks, 0, {}, {.frozen = {"*"}}), Error);
  EXPECT_THROW(make_layout(blocks, 0, {}, {.lr_scale = {{"nothing", 1.0}}}), Error);
  EXPECT_THROW(make_layout(blocks, 0, {}, {.lr_scale = {{"*", 0.0}}}), Error);
  EXPECT_THROW(make_layout(blocks, 0, {}, {.decay_scale = {{"*", -1.0}}}), Error);
}

// Two whole blocks, one with a tied table, half of every block, and a gain of the head.
ParameterRules rules() {
  return {.frozen = {"embedding*", "blocks.0.*", "*mlp*weight", "head.norm.weight"},
          .lr_scale = {{"head*", 4.0}, {"*bias", 0.5}},
          .decay_scale = {{"*bias", 1.0}, {"blocks.1*", 0.25}}};
}

std::int64_t padded_elems(const ModelLayout& layout, bool frozen) {
  std::int64_t elems = 0;
  for (const ParamGroup& group : layout.groups) elems += group.frozen == frozen ? group.num_elems : 0;
  return elems;
}

// Groups are of one kind; the remaining order is unchanged.
TEST(ParameterRules, FrozenParametersHaveGroupsOfTheirOwn) {
  const BlockList blocks = build_gpt(testing::pipeline_gpt_config());
  const ModelLayout layout = make_layout(blocks, 0, {}, rules());
  std::int64_t frozen = 0;
  for (const ParamGroup& group : layout.groups) {
    for (const ParamSlot& slot : group.slots) {
      bool is_frozen = false;
      for (const std::string& pattern : rules().frozen) is_frozen |= matches_pattern(pattern, slot.name);
      EXPECT_EQ(group.frozen, is_frozen) << slot.name;
      if (is_frozen) frozen += slot.shape.num_elems();
    }
    std::int64_t end = 0;
    for (const ParamRun& run : group.runs) {
      EXPECT_EQ(run.first, end);
      end = run.last;
    }
    EXPECT_EQ(end, group.num_elems) << group.name;
  }
  EXPECT_GT(frozen, 0);
  EXPECT_EQ(layout.num_frozen, frozen);
  EXPECT_EQ(layout.num_parameters, make_layout(blocks).num_parameters);
  EXPECT_EQ(layout.lr_scales.size(), 3u);
}

EngineOptions plain_options() {
  EngineOptions options = PipelineLayout{}.options();
  options.grad_clip = 0.0f;
  return options;
}

struct Trained {
  std::map<std::string, std::vector<float>> before, after, gradients;
  MemoryStats memory;
  ModelLayout layout;
};

Trained train_once(const EngineOptions& options, double lr) {
  const PipelineLayout layout;
  Trained trained;
  Engine engine(build_gpt(layout.model()), LocalWorld(1).communicator(0), options);
  const auto read = [&](std::map<std::string, std::vector<float>>& to) {
    for (std::size_t g = 0; g < engine.layout().groups.size(); ++g) {
      for (const ParamSlot& slot : engine.layout().groups[g].slots) {
        const Tensor& master = engine.parameters().master(static_cast<int>(g));
        to[slot.name] = engine.context().to_host(master.slice(slot.offset, slot.shape));
      }
    }
  };
  engine.observe_gradients([&](const std::string& name, const Tensor& gradient) {
    trained.gradients[name] = engine.context().to_host(gradient);
  });
  read(trained.before);
  const StepResult result = engine.step(testing::token_source(layout.gpt.vocab, layout.gpt.seq_len, 0),
                                        layout.global_batch * layout.gpt.seq_len, lr);
  read(trained.after);
  trained.memory = result.memory;
  trained.layout = engine.layout();
  return trained;
}

TEST(ParameterRules, WhatIsTrainedHasTheGradientsOfAllThatIs) {
  EngineOptions options = plain_options();
  const Trained all = train_once(options, 1e-2);
  options.rules = rules();
  const Trained some = train_once(options, 1e-2);
  EXPECT_EQ(some.before, all.before);
  EXPECT_LT(some.gradients.size(), all.gradients.size());
  for (const auto& [name, gradient] : some.gradients) EXPECT_EQ(gradient, all.gradients.at(name)) << name;
  for (const auto& [name, value] : some.after) {
    EXPECT_EQ(value == some.before.at(name), !some.gradients.contains(name)) << name;
  }
}

TEST(ParameterRules, OptimizerStateAndGradientsAreThoseOfWhatIsTrained) {
  EngineOptions options = plain_options();
  const Trained all = train_once(options, 1e-2);
  options.rules = {.frozen = rules().frozen};
  const Trained some = train_once(options, 1e-2);
  const std::int64_t frozen = padded_elems(some.layout, true), trained = padded_elems(some.layout, false);
  ASSERT_EQ(padded_elems(all.layout, false), frozen + trained);
  ASSERT_GT(frozen, trained);
  const auto saved = [&](MemoryCategory category) {
    return all.memory.peak[category] - some.memory.peak[category];
  };
  EXPECT_EQ(saved(MemoryCategory::kOptimizer), 2 * 4 * frozen);  // two moments in fp32
  EXPECT_EQ(saved(MemoryCategory::kParameters), 0);
  // For 8 micro-batches: the sums of a binary counter, and one number per norm block.
  EXPECT_GE(saved(MemoryCategory::kGradients), 3 * 4 * frozen);
}

// Plain SGD without momentum: p - lr scale (g + decay factor weight_decay p), as torch.optim.SGD with one
// parameter group per rule.
TEST(ParameterRules, FactorsAreThoseOfTheUpdate) {
  constexpr double kLr = 0.125, kDecay = 0.5;
  EngineOptions options = plain_options();
  options.optimizer = {.kind = OptimizerConfig::Kind::kSgd, .weight_decay = static_cast<float>(kDecay)};
  options.rules = {.lr_scale = {{"head*", 4.0}, {"*bias", 0.5}},
                   .decay_scale = {{"*bias", 1.0}, {"blocks.1*", 0.25}, {"head*", 3.0}}};
  const Trained trained = train_once(options, kLr);
  for (const auto& [name, before] : trained.before) {
    const bool bias = name.ends_with("bias"), head = name.starts_with("head");
    const bool matrix = !bias && name.find("norm") == std::string::npos;
    const double scale = head ? 4.0 : bias ? 0.5 : 1.0;
    const double decay = name.starts_with("blocks.1") ? 0.25 : head ? 3.0 : bias || matrix ? 1.0 : 0.0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double g = trained.gradients.at(name)[i], p = before[i];
      const double expected = p - kLr * scale * (g + decay * kDecay * p);
      ASSERT_NEAR(trained.after.at(name)[i], expected, 1e-6 * (1.0 + std::abs(expected))) << name << " " << i;
    }
  }
}

testing::PipelineOutcome run(const PipelineLayout& layout, std::int64_t steps) {
  const auto blocks = std::make_shared<const BlockList>(build_gpt(layout.model()));
  EngineOptions options = layout.options();
  options.rules = rules();
  testing::PipelineOutcome outcome;
  std::mutex mutex;
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(blocks, comm, options);
    const StepPrediction predicted =
        predict_step(blocks, options, *options.sample, layout.ranks(), comm->rank());
    StepResult result = testing::train(engine, layout, steps);
    result.memory.peak[MemoryCategory::kWorkspace] = 0;
    const testing::PipelineOutcome mine = outcome_of(engine, layout, result);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(result.memory.peak.bytes, predicted.memory.peak.bytes) << layout.to_string();
    EXPECT_EQ(result.memory.peak_total, predicted.memory.peak_total) << layout.to_string();
    EXPECT_EQ(result.sent_bytes, predicted.sent_bytes) << layout.to_string();
    if (comm->rank() == 0) outcome = mine;
  });
  return outcome;
}

void expect_equal_states(bool tied, const Precision& precision) {
  using enum PipelineSchedule;
  const PipelineLayout layouts[] = {{.data = 2},
                                    {.data = 4, .zero = 1, .recompute = 1},
                                    {.data = 2, .zero = 2, .group_min_bytes = 1 << 14},
                                    {.data = 4, .zero = 2, .accumulate_unsharded = true},
                                    {.data = 4, .zero = 3, .recompute = 2},
                                    {.data = 2, .zero = 3, .keep_gathered = true},
                                    {.stages = 2, .schedule = kGpipe},
                                    {.stages = 2, .data = 2, .zero = 1},
                                    {.stages = 2, .data = 2, .zero = 3},
                                    {.stages = 4, .zero = 0, .recompute = 1},
                                    {.stages = 2, .schedule = kInterleaved, .chunks = 2},
                                    {.stages = 2, .data = 2, .schedule = kZeroBubbleH1, .zero = 2}};
  const testing::PipelineOutcome expected = run({.tied = tied, .precision = precision}, 3);
  EXPECT_TRUE(std::isfinite(expected.loss));
  for (PipelineLayout layout : layouts) {
    layout.tied = tied;
    layout.precision = precision;
    EXPECT_TRUE(run(layout, 3) == expected) << layout.to_string();
  }
}

// The optimizer's file contains only trained parameters, so that other patterns are detected.
TEST(ParameterRules, CheckpointsHaveTheStateOfWhatIsTrained) {
  const testing::TemporaryFolder folder;
  const PipelineLayout sharded{.data = 2, .zero = 3}, alone;
  std::uint64_t saved = 0;
  run_local_ranks(sharded.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    EngineOptions options = sharded.options();
    options.rules = rules();
    Engine engine(build_gpt(sharded.model()), comm, options);
    testing::train(engine, sharded, 2);
    save_state(engine, folder.path());
    const std::uint64_t hash = engine.state_hash();
    if (comm->rank() == 0) saved = hash;
  });
  EngineOptions options = alone.options();
  options.seed = 1;
  options.rules = rules();
  Engine engine(build_gpt(alone.model()), LocalWorld(1).communicator(0), options);
  load_state(engine, folder.path(), StateParts::kAll);
  EXPECT_EQ(engine.state_hash(), saved);
  options.rules = {};
  Engine other(build_gpt(alone.model()), LocalWorld(1).communicator(0), options);
  EXPECT_THROW(load_state(other, folder.path(), StateParts::kAll), Error);
}

TEST(ParameterRules, EveryLayoutGivesTheSameState) {
  expect_equal_states(true, Precision());
}

TEST(ParameterRules, EveryLayoutGivesTheSameStateUntied) {
  expect_equal_states(false, Precision());
}

TEST(ParameterRules, EveryLayoutGivesTheSameStateInBf16) {
  expect_equal_states(true, Precision(PrecisionMode::kBf16));
}

}  // namespace
}  // namespace trireme

// Averages of the weights: their values and memory, their evaluation, saving and restoring, and that no
// layout changes them.
#include <cmath>
#include <numeric>

#include "parallel/foresee/predict.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors_source.h"
#include "tests/support/optimizer_jobs.h"
#include "tests/support/temporary_folder.h"

namespace trireme::testing {
namespace {

constexpr float kEma = 0.75f;
const OptimizerConfig kAdamW{.weight_decay = 0.1f};

float evaluate(Engine& engine, const PipelineLayout& layout, Weights weights) {
  return engine.evaluate(token_source(layout.gpt.vocab, layout.gpt.seq_len, 777), 11, 11 * layout.gpt.seq_len,
                         {}, weights);
}

TEST(Averages, AreTheMovingAveragesOfTheParameters) {
  const PipelineLayout layout;
  EngineOptions options = OptimizerJob{.optimizer = kAdamW, .ema = kEma}.options(layout);
  options.rules = {.frozen = {"blocks.1*"}};
  Engine engine(build_gpt(layout.model()), LocalWorld(1).communicator(0), options);
  std::map<std::string, std::vector<double>> expected;
  for (const auto& [name, values] : masters_of(engine)) expected[name].assign(values.begin(), values.end());
  for (int i = 0; i < 10; ++i) {
    train(engine, layout, i + 1);
    for (const auto& [name, values] : masters_of(engine)) {
      for (std::size_t e = 0; e < values.size(); ++e) {
        expected[name][e] = double{kEma} * expected[name][e] + (1 - double{kEma}) * values[e];
      }
    }
  }
  const Values masters = masters_of(engine);
  for (const auto& [name, values] : averages_of(engine)) {
    for (std::size_t e = 0; e < values.size(); ++e) {
      ASSERT_NEAR(values[e], expected[name][e], 1e-6 * (1 + std::abs(expected[name][e]))) << name;
    }
    EXPECT_EQ(values == masters.at(name), name.starts_with("blocks.1")) << name;
  }
}

TEST(Averages, TakeFourBytesAnElementOfEachShard) {
  for (const int zero : {0, 1, 2, 3}) {
    const PipelineLayout layout{.data = 2, .zero = zero};
    const auto blocks = std::make_shared<const BlockList>(build_gpt(layout.model()));
    const ModelLayout parameters = make_layout(*blocks);
    const Sharding sharding{.ranks = zero > 0 ? 2 : 1};
    const std::int64_t elems = std::accumulate(
        parameters.groups.begin(), parameters.groups.end(), std::int64_t{0},
        [&](std::int64_t sum, const auto& group) { return sum + sharding.piece(group.num_elems); });
    const auto peak = [&](float ema) {
      const EngineOptions options = OptimizerJob{.optimizer = kAdamW, .ema = ema}.options(layout);
      return predict_step(blocks, options, *options.sample, 2, 0).memory.peak_total;
    };
    EXPECT_EQ(peak(kEma) - peak(0.0f), 4 * elems) << zero;
  }
}

TEST(Averages, EveryLayoutGivesTheSameState) {
  const OptimizerJob job{.optimizer = kAdamW, .ema = kEma};
  expect_equal_states(job, layouts_of_whole_states());
  expect_equal_states(job, layouts_of_shards());
}

TEST(Averages, EveryPrecisionGivesTheSameStateOnOtherLayouts) {
  for (const PrecisionMode mode :
       {PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kFp16, PrecisionMode::kBf16}) {
    OptimizerJob job{.optimizer = kAdamW, .ema = kEma, .precision = Precision(mode)};
    if (mode == PrecisionMode::kFp16) job.loss_scale.kind = LossScaleConfig::Kind::kDynamic;
    expect_equal_states(job, {{.data = 2, .zero = 2}, {.stages = 2, .data = 2, .zero = 1}});
  }
}

struct Evaluated {
  float parameters = 0, averages = 0;
  std::uint64_t before = 0, after = 0, later = 0;
};

// Two steps, both evaluations, and one more step.
Evaluated train_and_evaluate_both(PipelineLayout layout, PrecisionMode mode) {
  layout.precision = Precision(mode);
  const OptimizerJob job{.optimizer = kAdamW, .ema = kEma, .precision = layout.precision};
  Evaluated evaluated;
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(layout.model()), comm, job.options(layout));
    train(engine, layout, 2);
    Evaluated mine{.parameters = evaluate(engine, layout, Weights::kParameters),
                   .before = engine.state_hash()};
    mine.averages = evaluate(engine, layout, Weights::kAverages);
    EXPECT_EQ(evaluate(engine, layout, Weights::kAverages), mine.averages);
    EXPECT_EQ(evaluate(engine, layout, Weights::kParameters), mine.parameters);
    mine.after = engine.state_hash();
    train(engine, layout, 3);
    mine.later = engine.state_hash();
    if (comm->rank() == 0) evaluated = mine;
  });
  return evaluated;
}

// The loss equals the loss of an engine with the averages as parameters, and the run continues unaffected.
TEST(Averages, AreEvaluatedOnEveryLayout) {
  for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
    const TemporaryFolder folder;
    PipelineLayout alone;
    alone.precision = Precision(mode);
    const OptimizerJob job{.optimizer = kAdamW, .ema = kEma, .precision = alone.precision};
    std::uint64_t later = 0;
    {
      Engine engine(build_gpt(alone.model()), LocalWorld(1).communicator(0), job.options(alone));
      train(engine, alone, 2);
      save_state(engine, folder.path());
      train(engine, alone, 3);
      later = engine.state_hash();
    }
    const OptimizerJob plain{.optimizer = {.kind = OptimizerConfig::Kind::kSgd},
                             .precision = alone.precision};
    Engine averaged(build_gpt(alone.model()), LocalWorld(1).communicator(0), plain.options(alone));
    load_state(averaged, folder.path(), StateParts::kAverages);
    const float expected = evaluate(averaged, alone, Weights::kParameters);
    load_state(averaged, folder.path(), StateParts::kModel);
    EXPECT_NE(evaluate(averaged, alone, Weights::kParameters), expected);

    std::vector<PipelineLayout> layouts = layouts_of_shards();
    layouts.insert(layouts.end(), {{}, {.data = 2}, {.stages = 2}, {.stages = 2, .data = 2, .tied = false}});
    for (const PipelineLayout& layout : layouts) {
      const Evaluated evaluated = train_and_evaluate_both(layout, mode);
      EXPECT_NE(evaluated.parameters, evaluated.averages) << layout.to_string();
      EXPECT_EQ(evaluated.after, evaluated.before) << layout.to_string();
      if (!layout.tied) continue;  // untied: another model
      EXPECT_EQ(evaluated.averages, expected) << layout.to_string();
      EXPECT_EQ(evaluated.later, later) << layout.to_string();
    }
  }
}

TEST(Averages, ResumeOnAnyOtherLayout) {
  const TemporaryFolder folder;
  const OptimizerJob job{.optimizer = {.kind = OptimizerConfig::Kind::kLion, .weight_decay = 0.1f},
                         .ema = kEma};
  const PipelineOutcome expected = train_job(job, {}, 6);
  const PipelineLayout chain[] = {{.data = 4, .zero = 3}, {.stages = 2, .data = 2, .zero = 1}, {.data = 2}};
  std::int64_t step = 0;
  for (const PipelineLayout& layout : chain) {
    PipelineOutcome outcome;
    run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(layout.model()), comm, job.options(layout));
      if (step > 0) load_state(engine, folder.path(), StateParts::kAll);
      engine.set_steps_done(step);
      const StepResult last = train(engine, layout, step + 2);
      comm->barrier();  // all ranks have read before the files are replaced
      save_state(engine, folder.path());
      const PipelineOutcome mine = outcome_of(engine, layout, last);
      if (comm->rank() == 0) outcome = mine;
    });
    step += 2;
    if (step == 6) {
      EXPECT_TRUE(outcome == expected) << layout.to_string();
    }
  }
}

// A file of averages is a complete model. Without such a file, averages start from the parameters.
TEST(Averages, StartFromWhatIsLoaded) {
  const TemporaryFolder with, without;
  const PipelineLayout layout;
  const OptimizerJob job{.optimizer = kAdamW, .ema = kEma}, plain{.optimizer = kAdamW};
  const auto engine_of = [&](const OptimizerJob& of) {
    return std::make_unique<Engine>(build_gpt(layout.model()), LocalWorld(1).communicator(0),
                                    of.options(layout));
  };
  const auto trained = engine_of(job), other = engine_of(plain);
  train(*trained, layout, 2);
  train(*other, layout, 2);
  EXPECT_EQ(save_state(*trained, with.path()).size(), 3u);
  EXPECT_EQ(save_state(*other, without.path()).size(), 2u);
  EXPECT_FALSE(std::filesystem::exists(without.path() / kAveragesFile));

  const auto fresh = engine_of(job);
  load_state(*fresh, without.path(), StateParts::kAll);
  EXPECT_EQ(averages_of(*fresh), masters_of(*other));
  load_state(*fresh, with.path(), StateParts::kAll);
  EXPECT_EQ(averages_of(*fresh), averages_of(*trained));
  EXPECT_EQ(masters_of(*fresh), masters_of(*trained));
  load_model(*fresh, SafetensorsSource(with.path() / kAveragesFile));
  EXPECT_EQ(masters_of(*fresh), averages_of(*trained));
  EXPECT_EQ(averages_of(*fresh), averages_of(*trained));
}

TEST(Averages, RefuseWhatIsNoDecay) {
  const PipelineLayout layout;
  for (const float ema : {-0.5f, 1.0f, std::nanf("")}) {
    EXPECT_THROW(Engine(build_gpt(layout.model()), LocalWorld(1).communicator(0),
                        OptimizerJob{.ema = ema}.options(layout)),
                 Error)
        << ema;
  }
  Engine none(build_gpt(layout.model()), LocalWorld(1).communicator(0), OptimizerJob{}.options(layout));
  EXPECT_THROW(evaluate(none, layout, Weights::kAverages), Error);
}

}  // namespace
}  // namespace trireme::testing

// The tensor axis: the same bits on every layout of a model in chunks, in every precision, and predicted
// memory and traffic.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/bert.h"
#include "models/gpt.h"
#include "models/llama.h"
#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "tests/support/predicted_run.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 8, kSteps = 3, kSeqLen = 9, kVocab = 40;
constexpr int kChunks = 8, kMaxRanks = 8;

struct Layout {
  int tensor = 1, data = 1, zero = 0, recompute = 0;
  PipelineOptions pipeline;
  Recompute inside = Recompute::kNone;

  int ranks() const { return tensor * data * pipeline.stages; }
  std::string to_string() const {
    return fmt::format("{} tensor x {} data ranks x {} stages of {} chunk(s), {}, zero {}, recompute {}, {}",
                       tensor, data, pipeline.stages, pipeline.chunks, name(pipeline.schedule), zero,
                       recompute, name(inside));
  }
};

GptConfig gpt(bool tied, int chunks = kChunks) {
  return {.layers = 4,
          .hidden = 32,
          .heads = 8,
          .vocab = kVocab,
          .seq_len = kSeqLen,
          .dropout = 0.1f,
          .tied = tied,
          .tensor_chunks = chunks};
}

LlamaConfig llama(bool tied) {
  return {.layers = 4,
          .hidden = 32,
          .heads = 16,
          .kv_heads = 8,
          .ffn = 40,
          .vocab = kVocab,
          .seq_len = kSeqLen,
          .rope_theta = 100.0,
          .tied = tied,
          .tensor_chunks = kChunks};
}

EngineOptions options_for(PrecisionMode mode, const Layout& layout) {
  EngineOptions options{.global_batch = kGlobalBatch,
                        .micro_batch = 1,
                        .seed = 5,
                        .optimizer = {.weight_decay = 0.1f},
                        .grad_clip = 0.5f,
                        .zero = static_cast<ZeroStage>(layout.zero),
                        .accumulate_unsharded = layout.data == 3 && layout.zero > 1,  // uneven shares
                        .recompute_every = layout.recompute,
                        .recompute = layout.inside,
                        .pipeline = layout.pipeline,
                        .tensor = layout.tensor,
                        .sample = SampleSpec{.input = {kSeqLen}, .target = {kSeqLen}},
                        .precision = Precision(mode)};
  if (mode == PrecisionMode::kFp16) options.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic};
  return options;
}

std::vector<PipelineOptions> pipelines() {
  return {{.stages = 1},
          {.stages = 2, .schedule = PipelineSchedule::kGpipe},
          {.stages = 2, .schedule = PipelineSchedule::kOneForwardOneBackward},
          {.stages = 2, .schedule = PipelineSchedule::kInterleaved, .chunks = 2},
          {.stages = 2, .schedule = PipelineSchedule::kZeroBubbleH1},
          {.stages = 3, .schedule = PipelineSchedule::kZeroBubbleH1},
          {.stages = 4, .schedule = PipelineSchedule::kOneForwardOneBackward}};
}

// Tensor ranks x data ranks x stages and their schedules x ZeRO x recompute, up to eight ranks.
std::vector<Layout> all_layouts() {
  std::vector<Layout> all;
  for (const PipelineOptions& pipeline : pipelines()) {
    for (const int tensor : {1, 2, 4, 8}) {
      for (const int data : {1, 2, 3, 4}) {
        for (const int zero : {0, 1, 2, 3}) {
          for (const int recompute : {0, 1, 2}) {
            Layout layout{tensor, data, zero, recompute, pipeline};
            // With and without, on every kind of layout.
            if ((all.size() + all.size() / 3) % 2 == 1) layout.inside = Recompute::kSelective;
            if (data == 3 && recompute > 0) continue;  // the shares are uneven, whatever is run again
            if (layout.ranks() <= kMaxRanks && (data > 1 || zero == 0 || zero == 3)) all.push_back(layout);
          }
        }
      }
    }
  }
  return all;
}

using testing::RunOutcome;

void train(Engine& engine, std::int64_t to_step, const std::function<void(const StepResult&)>& look) {
  while (engine.steps_done() < to_step) {
    const std::int64_t first = engine.steps_done() * kGlobalBatch;
    look(engine.step(testing::token_source(kVocab, kSeqLen, first), kGlobalBatch * kSeqLen, 1e-2));
  }
}

using Build = std::function<BlockList(bool tied)>;

RunOutcome run(const Build& build, PrecisionMode mode, bool tied, const Layout& layout,
               const std::vector<std::string>& frozen = {}) {
  EngineOptions options = options_for(mode, layout);
  options.rules.frozen = frozen;
  return testing::run_as_predicted(
      {.blocks = std::make_shared<const BlockList>(build(tied)),
       .options = options,
       .ranks = layout.ranks(),
       .steps = kSteps,
       .batches = [](std::int64_t first) { return testing::token_source(kVocab, kSeqLen, first); },
       .targets = [](std::int64_t) { return kGlobalBatch * kSeqLen; },
       .targets_of_sample = kSeqLen},
      layout.to_string());
}

const Build kGpt = [](bool tied) { return build_gpt(gpt(tied)); };
const Build kLlama = [](bool tied) { return build_llama(llama(tied)); };

TEST(TensorLayouts, EveryLayoutGivesTheSameState) {
  const RunOutcome expected = run(kGpt, PrecisionMode::kFp32, true, {});
  EXPECT_TRUE(std::isfinite(expected.eval_loss));
  const std::vector<Layout> layouts = all_layouts();
  EXPECT_GE(layouts.size(), 150u);
  constexpr std::size_t kStride = testing::kSanitized ? 5 : 1;
  for (std::size_t i = 0; i < layouts.size(); i += kStride) {
    EXPECT_TRUE(run(kGpt, PrecisionMode::kFp32, true, layouts[i]) == expected) << layouts[i].to_string();
  }
}

class TensorLayouts : public ::testing::TestWithParam<std::tuple<PrecisionMode, bool>> {
 protected:
  static void check(const Build& build);
};

const Layout kSome[] = {
    {.tensor = 8},
    {.tensor = 2, .data = 4, .zero = 2},
    {.tensor = 4, .data = 2, .zero = 3, .recompute = 2},
    {.tensor = 2, .data = 2, .zero = 1, .pipeline = {.stages = 2}},
    {.tensor = 2, .recompute = 1, .pipeline = {.stages = 2, .schedule = PipelineSchedule::kZeroBubbleH1}},
    {.tensor = 2, .inside = Recompute::kSelective},
    {.tensor = 4,
     .pipeline = {.stages = 2, .schedule = PipelineSchedule::kZeroBubbleH1},
     .inside = Recompute::kSelective}};

void TensorLayouts::check(const Build& build) {
  const auto [mode, tied] = GetParam();
  const RunOutcome expected = run(build, mode, tied, {});
  EXPECT_TRUE(std::isfinite(expected.eval_loss));
  for (const Layout& layout : kSome)
    EXPECT_TRUE(run(build, mode, tied, layout) == expected) << layout.to_string();
}

TEST_P(TensorLayouts, GiveTheSameStateInEveryPrecision) {
  check(kGpt);
}

TEST_P(TensorLayouts, OfLlamasToo) {
  check(kLlama);
}

INSTANTIATE_TEST_SUITE_P(Precisions, TensorLayouts,
                         ::testing::Combine(::testing::Values(PrecisionMode::kFp32, PrecisionMode::kTf32,
                                                              PrecisionMode::kFp16, PrecisionMode::kBf16),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return fmt::format("{}_{}", name(std::get<0>(info.param)),
                                              std::get<1>(info.param) ? "tied" : "untied");
                         });

// Whose embedding and head every tensor rank has whole.
TEST(TensorLayouts, OfBertsToo) {
  const Build bert = [](bool) {
    return build_bert({.layers = 4,
                       .hidden = 32,
                       .heads = 8,
                       .vocab = kVocab,
                       .seq_len = kSeqLen,
                       .dropout = 0.1f,
                       .tensor_chunks = kChunks});
  };
  for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
    const RunOutcome expected = run(bert, mode, true, {});
    EXPECT_TRUE(std::isfinite(expected.eval_loss));
    for (const Layout& layout : kSome)
      EXPECT_TRUE(run(bert, mode, true, layout) == expected) << layout.to_string();
  }
}

// Stopped after two steps on one layout, and gone on with on another.
TEST(TensorLayouts, CheckpointsResumeOnAnyOther) {
  const RunOutcome expected = run(kGpt, PrecisionMode::kBf16, true, {});
  for (const Layout& from : kSome) {
    const testing::TemporaryFolder folder;
    run_local_ranks(from.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(gpt(true)), comm, options_for(PrecisionMode::kBf16, from));
      train(engine, kSteps - 1, [](const StepResult&) {});
      save_state(engine, folder.path());
    });
    for (const Layout& to : {Layout{}, Layout{.tensor = 4, .data = 2, .zero = 2}, kSome[4]}) {
      run_local_ranks(to.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
        Engine engine(build_gpt(gpt(true)), comm, options_for(PrecisionMode::kBf16, to));
        load_state(engine, folder.path(), StateParts::kAll);
        engine.set_steps_done(kSteps - 1);
        train(engine, kSteps, [](const StepResult&) {});
        EXPECT_EQ(engine.state_hash(), expected.hash) << from.to_string() << " -> " << to.to_string();
      });
    }
  }
}

// A vocabulary that the chunks do not divide stays whole on every rank.
TEST(TensorLayouts, AnOddVocabularyIsNotCut) {
  const Build odd = [](bool tied) {
    GptConfig config = gpt(tied);
    config.vocab = kVocab + 1;
    return build_gpt(config);
  };
  const RunOutcome expected = run(odd, PrecisionMode::kBf16, true, {});
  for (const Layout& layout : kSome)
    EXPECT_TRUE(run(odd, PrecisionMode::kBf16, true, layout) == expected) << layout.to_string();
}

// Tables whose vocabulary is cut, with the positions and without.
TEST(TensorLayouts, FrozenTablesToo) {
  const Layout layouts[] = {kSome[0], kSome[2], kSome[4]};
  for (const char* frozen : {"embedding*", "embedding.tokens*"}) {
    const RunOutcome expected = run(kGpt, PrecisionMode::kFp32, true, {}, {frozen});
    EXPECT_TRUE(std::isfinite(expected.eval_loss));
    for (const Layout& layout : layouts)
      EXPECT_TRUE(run(kGpt, PrecisionMode::kFp32, true, layout, {frozen}) == expected) << layout.to_string();
  }
  const RunOutcome expected = run(kLlama, PrecisionMode::kFp32, false, {}, {"embedding*"});
  EXPECT_TRUE(run(kLlama, PrecisionMode::kFp32, false, layouts[0], {"embedding*"}) == expected);
}

// Ranks divide the heads; what is left of the groups cuts the sums of each rank.
TEST(TensorLayouts, GroupsNeedNotDivideTheHeads) {
  const Build twelve_heads = [](bool tied) {
    GptConfig config = gpt(tied);
    config.hidden = 48, config.heads = 12;
    return build_gpt(config);
  };
  const Build six_heads = [](bool tied) {
    LlamaConfig config = llama(tied);
    config.hidden = 48, config.heads = 12, config.kv_heads = 6;
    return build_llama(config);
  };
  for (const PrecisionMode mode :
       {PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kFp16, PrecisionMode::kBf16}) {
    for (const auto& [build, most] : {std::pair<const Build&, int>{twelve_heads, 4}, {six_heads, 2}}) {
      const RunOutcome expected = run(build, mode, true, {});
      EXPECT_TRUE(std::isfinite(expected.eval_loss));
      for (const Layout& layout : kSome) {
        if (layout.tensor > most) continue;
        EXPECT_TRUE(run(build, mode, true, layout) == expected) << layout.to_string();
      }
    }
  }
}

// The number of chunks decides last bits alone.
TEST(TensorLayouts, ModelsInChunksStartAlike) {
  const auto first_loss = [](int chunks) {
    float loss = 0;
    run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(gpt(true, chunks)), comm, options_for(PrecisionMode::kFp32, {}));
      loss = engine.evaluate(testing::token_source(kVocab, kSeqLen, 0), 4, 4 * kSeqLen);
    });
    return loss;
  };
  for (const int chunks : {2, 4, 8, 16, 32}) EXPECT_NEAR(first_loss(chunks), first_loss(1), 1e-6) << chunks;
}

TEST(TensorLayouts, WhatCannotBeSharedIsRefused) {
  const auto refusal = [](const GptConfig& config, int ranks, int tensor) {
    std::string message;
    run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
      try {
        const Engine engine(build_gpt(config), comm, options_for(PrecisionMode::kFp32, {.tensor = tensor}));
      } catch (const Error& error) {
        if (comm->rank() == 0) message = error.what();
      }
    });
    return message;
  };
  EXPECT_NE(refusal(gpt(true, 1), 2, 2).find("the model has one tensor chunk"), std::string::npos);
  EXPECT_NE(refusal(gpt(true, 2), 4, 4).find("cannot share the 2 tensor chunks of 'embedding"),
            std::string::npos);
  EXPECT_NE(refusal(gpt(true), 3, 2).find("start a multiple of 2 ranks"), std::string::npos);
  EXPECT_THROW(build_gpt(gpt(true, 3)), Error);
  EXPECT_THROW(build_gpt(gpt(true, 64)), Error);
  GptConfig twelve = gpt(true);
  twelve.hidden = 48, twelve.heads = 12;
  EXPECT_NE(refusal(twelve, 8, 8).find("cannot share the 4 tensor chunks of 'blocks.0"), std::string::npos);
  twelve.hidden = 36, twelve.heads = 9, twelve.tensor_chunks = 4;
  EXPECT_THROW(build_gpt(twelve), Error);  // heads that nobody could share
}

}  // namespace
}  // namespace trireme

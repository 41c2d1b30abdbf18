// The tensor axis: the same bits on every layout of a model in chunks, in every precision, and predicted
// memory and traffic.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/bert.h"
#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tensor_layout.h"

namespace trireme {
namespace {

using testing::ChunkedJob, testing::RunOutcome, testing::sampled;
using Layout = testing::TensorLayout;
using Build = testing::BuildModel;

constexpr ChunkedJob kJob{.global_batch = 8, .micro_batch = 1, .steps = 3, .seq_len = 9};

std::vector<trireme::Layout> pipelines() {
  return {{.pipeline = 1},
          {.pipeline = 2, .schedule = PipelineSchedule::kGpipe},
          {.pipeline = 2, .schedule = PipelineSchedule::kOneForwardOneBackward},
          {.pipeline = 2, .schedule = PipelineSchedule::kInterleaved, .chunks = 2},
          {.pipeline = 2, .schedule = PipelineSchedule::kZeroBubbleH1},
          {.pipeline = 3, .schedule = PipelineSchedule::kZeroBubbleH1},
          {.pipeline = 4, .schedule = PipelineSchedule::kOneForwardOneBackward}};
}

// Tensor ranks x data ranks x stages and their schedules x ZeRO x recompute, up to eight ranks.
std::vector<Layout> all_layouts() {
  std::vector<Layout> all;
  for (const trireme::Layout& pipeline : pipelines()) {
    for (const int tensor : {1, 2, 4, 8}) {
      for (const int data : {1, 2, 3, 4}) {
        for (const int zero : {0, 1, 2, 3}) {
          for (const int recompute : {0, 1, 2}) {
            Layout layout{tensor, data, zero, recompute, pipeline};
            // With and without selective recompute, on every kind of layout.
            if ((all.size() + all.size() / 3) % 2 == 1) layout.inside = Recompute::kSelective;
            if (data == 3 && recompute > 0) continue;  // the shares are uneven, with or without recompute
            if (layout.ranks() <= ChunkedJob::kMaxRanks && (data > 1 || zero == 0 || zero == 3))
              all.push_back(layout);
          }
        }
      }
    }
  }
  return all;
}

const Build kGpt = [](bool tied) { return build_gpt(kJob.gpt(tied)); };
const Build kLlama = [](bool tied) { return build_llama(kJob.llama(tied)); };

TEST(TensorLayouts, EveryLayoutGivesTheSameState) {
  const RunOutcome expected = kJob.run(kGpt, PrecisionMode::kFp32, true, {});
  EXPECT_TRUE(std::isfinite(expected.eval_loss));
  const std::vector<Layout> layouts = all_layouts();
  EXPECT_GE(layouts.size(), 150u);
  for (const Layout& layout : sampled(layouts, 7))
    EXPECT_TRUE(kJob.run(kGpt, PrecisionMode::kFp32, true, layout) == expected) << layout.to_string();
}

class TensorLayouts : public ::testing::TestWithParam<testing::PrecisionAndTied> {
 protected:
  static void check(const Build& build);
};

const Layout kSome[] = {
    {.tensor = 8},
    {.tensor = 2, .data = 4, .zero = 2},
    {.tensor = 4, .data = 2, .zero = 3, .recompute = 2},
    {.tensor = 2, .data = 2, .zero = 1, .pipeline = {.pipeline = 2}},
    {.tensor = 2, .recompute = 1, .pipeline = {.pipeline = 2, .schedule = PipelineSchedule::kZeroBubbleH1}},
    {.tensor = 2, .inside = Recompute::kSelective},
    {.tensor = 4,
     .pipeline = {.pipeline = 2, .schedule = PipelineSchedule::kZeroBubbleH1},
     .inside = Recompute::kSelective}};

void TensorLayouts::check(const Build& build) {
  const auto [mode, tied] = GetParam();
  const RunOutcome expected = kJob.run(build, mode, tied, {});
  EXPECT_TRUE(std::isfinite(expected.eval_loss));
  for (const Layout& layout : sampled(kSome, 3))
    EXPECT_TRUE(kJob.run(build, mode, tied, layout) == expected) << layout.to_string();
}

TEST_P(TensorLayouts, GiveTheSameStateInEveryPrecision) {
  check(kGpt);
}

TEST_P(TensorLayouts, OfLlamasToo) {
  check(kLlama);
}

TEST_P(TensorLayouts, OfQwensToo) {
  check(kJob.qwen2());
}

// All heads share the weights of their norms.
TEST_P(TensorLayouts, OfNormedHeadsToo) {
  check(kJob.qwen3());
}

TEST_P(TensorLayouts, OfGemmasToo) {
  check(kJob.gemma3());
}

TEST_P(TensorLayouts, OfPostNormDecodersToo) {
  check(kJob.post_norm_decoder());
}

INSTANTIATE_TEST_SUITE_P(Precisions, TensorLayouts, testing::precisions_tied_or_not(),
                         testing::precision_and_tied_name);

// Every tensor rank has the whole embedding and head.
TEST(TensorLayouts, OfBertsToo) {
  const Build bert = [](bool) {
    return build_bert({.layers = 4,
                       .hidden = 32,
                       .heads = 8,
                       .vocab = ChunkedJob::kVocab,
                       .seq_len = kJob.seq_len,
                       .dropout = 0.1f,
                       .tensor_chunks = ChunkedJob::kChunks});
  };
  for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
    const RunOutcome expected = kJob.run(bert, mode, true, {});
    EXPECT_TRUE(std::isfinite(expected.eval_loss));
    for (const Layout& layout : sampled(kSome, 3))
      EXPECT_TRUE(kJob.run(bert, mode, true, layout) == expected) << layout.to_string();
  }
}

// Stopped after two steps on one layout, and continued on another.
TEST(TensorLayouts, CheckpointsResumeOnAnyOther) {
  const RunOutcome expected = kJob.run(kGpt, PrecisionMode::kBf16, true, {});
  for (const Layout& from : sampled(kSome, 3)) {
    const testing::TemporaryFolder folder;
    run_local_ranks(from.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(kJob.gpt(true)), comm, kJob.options(PrecisionMode::kBf16, from));
      kJob.train(engine, kJob.steps - 1);
      save_state(engine, folder.path());
    });
    for (const Layout& to : {Layout{}, Layout{.tensor = 4, .data = 2, .zero = 2}, kSome[4]}) {
      run_local_ranks(to.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
        Engine engine(build_gpt(kJob.gpt(true)), comm, kJob.options(PrecisionMode::kBf16, to));
        load_state(engine, folder.path(), StateParts::kAll);
        engine.set_steps_done(kJob.steps - 1);
        kJob.train(engine, kJob.steps);
        EXPECT_EQ(engine.state_hash(), expected.hash) << from.to_string() << " -> " << to.to_string();
      });
    }
  }
}

// A vocabulary that the chunks do not divide stays whole on every rank.
TEST(TensorLayouts, AnOddVocabularyIsNotCut) {
  const Build odd = [](bool tied) {
    GptConfig config = kJob.gpt(tied);
    config.vocab = ChunkedJob::kVocab + 1;
    return build_gpt(config);
  };
  const RunOutcome expected = kJob.run(odd, PrecisionMode::kBf16, true, {});
  for (const Layout& layout : sampled(kSome, 3))
    EXPECT_TRUE(kJob.run(odd, PrecisionMode::kBf16, true, layout) == expected) << layout.to_string();
}

// Tables with a cut vocabulary, with and without the positions.
TEST(TensorLayouts, FrozenTablesToo) {
  const Layout layouts[] = {kSome[0], kSome[2], kSome[4]};
  for (const char* frozen : {"embedding*", "embedding.tokens*"}) {
    const RunOutcome expected = kJob.run(kGpt, PrecisionMode::kFp32, true, {}, {.frozen = {frozen}});
    EXPECT_TRUE(std::isfinite(expected.eval_loss));
    for (const Layout& layout : layouts)
      EXPECT_TRUE(kJob.run(kGpt, PrecisionMode::kFp32, true, layout, {.frozen = {frozen}}) == expected)
          << layout.to_string();
  }
  const RunOutcome expected = kJob.run(kLlama, PrecisionMode::kFp32, false, {}, {.frozen = {"embedding*"}});
  EXPECT_TRUE(kJob.run(kLlama, PrecisionMode::kFp32, false, layouts[0], {.frozen = {"embedding*"}}) ==
              expected);
}

// Ranks divide the heads; the remaining factor of the groups splits the sums of each rank.
TEST(TensorLayouts, GroupsNeedNotDivideTheHeads) {
  const Build twelve_heads = [](bool tied) {
    GptConfig config = kJob.gpt(tied);
    config.hidden = 48, config.heads = 12;
    return build_gpt(config);
  };
  const Build six_heads = [](bool tied) {
    LlamaConfig config = kJob.llama(tied);
    config.hidden = 48, config.heads = 12, config.kv_heads = 6;
    return build_llama(config);
  };
  for (const PrecisionMode mode :
       {PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kFp16, PrecisionMode::kBf16}) {
    for (const auto& [build, most] : {std::pair<const Build&, int>{twelve_heads, 4}, {six_heads, 2}}) {
      const RunOutcome expected = kJob.run(build, mode, true, {});
      EXPECT_TRUE(std::isfinite(expected.eval_loss));
      for (const Layout& layout : sampled(kSome, 3)) {
        if (layout.tensor > most) continue;
        EXPECT_TRUE(kJob.run(build, mode, true, layout) == expected) << layout.to_string();
      }
    }
  }
}

// The number of chunks changes only the last bits.
TEST(TensorLayouts, ModelsInChunksStartAlike) {
  const auto first_loss = [](int chunks) {
    float loss = 0;
    run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(kJob.gpt(true, chunks)), comm, kJob.options(PrecisionMode::kFp32, {}));
      loss = engine.evaluate(testing::token_source(ChunkedJob::kVocab, kJob.seq_len, 0), 4, 4 * kJob.seq_len);
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
        const Engine engine(build_gpt(config), comm, kJob.options(PrecisionMode::kFp32, {.tensor = tensor}));
      } catch (const Error& error) {
        if (comm->rank() == 0) message = error.what();
      }
    });
    return message;
  };
  EXPECT_NE(refusal(kJob.gpt(true, 1), 2, 2).find("the model has one tensor chunk"), std::string::npos);
  EXPECT_NE(refusal(kJob.gpt(true, 2), 4, 4).find("cannot share the 2 tensor chunks of 'embedding"),
            std::string::npos);
  EXPECT_NE(refusal(kJob.gpt(true), 3, 2).find("start a multiple of 2 ranks"), std::string::npos);
  EXPECT_THROW(build_gpt(kJob.gpt(true, 3)), Error);
  EXPECT_THROW(build_gpt(kJob.gpt(true, 64)), Error);
  GptConfig twelve = kJob.gpt(true);
  twelve.hidden = 48, twelve.heads = 12;
  EXPECT_NE(refusal(twelve, 8, 8).find("cannot share the 4 tensor chunks of 'blocks.0"), std::string::npos);
  twelve.hidden = 36, twelve.heads = 9, twelve.tensor_chunks = 4;
  EXPECT_THROW(build_gpt(twelve), Error);  // heads that no ranks could share
}

}  // namespace
}  // namespace trireme

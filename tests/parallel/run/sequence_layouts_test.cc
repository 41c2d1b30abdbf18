// Sequence parallelism: the same bits with and without it, on every layout and in every precision, with
// predicted memory and traffic.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/bert.h"
#include "models/vit.h"
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

// Micro-batches of three samples: shards of 2, 4 or 8 ranks begin inside a sample.
constexpr ChunkedJob kJob{.global_batch = 12, .micro_batch = 3, .steps = 2, .seq_len = 8};

std::vector<trireme::Layout> pipelines() {
  return {{.pipeline = 1},
          {.pipeline = 2, .schedule = PipelineSchedule::kGpipe},
          {.pipeline = 2, .schedule = PipelineSchedule::kOneForwardOneBackward},
          {.pipeline = 2, .schedule = PipelineSchedule::kInterleaved, .chunks = 2},
          {.pipeline = 2, .schedule = PipelineSchedule::kZeroBubbleH1},
          {.pipeline = 4, .schedule = PipelineSchedule::kZeroBubbleH1}};
}

// Tensor ranks that share the sequence x data ranks x stages and their schedules x ZeRO x recompute.
std::vector<Layout> all_layouts() {
  std::vector<Layout> all;
  for (const trireme::Layout& pipeline : pipelines()) {
    for (const int tensor : {2, 4, 8}) {
      for (const int data : {1, 2, 4}) {
        for (const int zero : {0, 1, 2, 3}) {
          for (const int recompute : {0, 2}) {
            Layout layout{tensor, data, zero, recompute, pipeline};
            layout.sequence = true;
            if ((all.size() + all.size() / 3) % 2 == 1) layout.inside = Recompute::kSelective;
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
/// An odd vocabulary, which every tensor rank has whole, with logits in five parts of the 24 rows.
const Build kLossParts = [](bool tied) {
  LlamaConfig config = kJob.llama(tied);
  ++config.vocab, config.loss_parts = 5;
  return build_llama(config);
};

TEST(SequenceLayouts, EveryLayoutGivesTheSameState) {
  const RunOutcome expected = kJob.run(kGpt, PrecisionMode::kFp32, true, {});
  EXPECT_TRUE(std::isfinite(expected.eval_loss));
  EXPECT_TRUE(kJob.run(kGpt, PrecisionMode::kFp32, true, {.tensor = 4}) == expected);
  const std::vector<Layout> layouts = all_layouts();
  EXPECT_GE(layouts.size(), 70u);
  for (const Layout& layout : sampled(layouts, 7))
    EXPECT_TRUE(kJob.run(kGpt, PrecisionMode::kFp32, true, layout) == expected) << layout.to_string();
}

// One sample of eight tokens: one row per rank, and groups of one row.
TEST(SequenceLayouts, OfOneSampleToo) {
  const RunOutcome expected = kJob.run(kGpt, PrecisionMode::kFp32, true, {.micro_batch = 1});
  for (const int tensor : {2, 4, 8}) {
    const Layout layout{.tensor = tensor, .sequence = true, .micro_batch = 1};
    EXPECT_TRUE(kJob.run(kGpt, PrecisionMode::kFp32, true, layout) == expected) << layout.to_string();
  }
}

class SequenceLayouts : public ::testing::TestWithParam<testing::PrecisionAndTied> {
 protected:
  static void check(const Build& build);
};

const Layout kSome[] = {{.tensor = 4},
                        {.tensor = 8, .sequence = true},
                        {.tensor = 2, .data = 4, .zero = 2, .sequence = true},
                        {.tensor = 4, .data = 2, .zero = 3, .recompute = 2, .sequence = true},
                        {.tensor = 2, .data = 2, .zero = 1, .pipeline = {.pipeline = 2}, .sequence = true},
                        {.tensor = 2, .inside = Recompute::kSelective, .sequence = true},
                        {.tensor = 4,
                         .pipeline = {.pipeline = 2, .schedule = PipelineSchedule::kZeroBubbleH1},
                         .inside = Recompute::kSelective,
                         .sequence = true}};

void SequenceLayouts::check(const Build& build) {
  const auto [mode, tied] = GetParam();
  const RunOutcome expected = kJob.run(build, mode, tied, {});
  EXPECT_TRUE(std::isfinite(expected.eval_loss));
  for (const Layout& layout : sampled(kSome, 3))
    EXPECT_TRUE(kJob.run(build, mode, tied, layout) == expected) << layout.to_string();
}

TEST_P(SequenceLayouts, GiveTheSameStateInEveryPrecision) {
  check(kGpt);
}

TEST_P(SequenceLayouts, OfLlamasToo) {
  check(kLlama);
}

TEST_P(SequenceLayouts, OfQwensToo) {
  check(kJob.qwen2());
}

// All heads share the weights of their norms.
TEST_P(SequenceLayouts, OfNormedHeadsToo) {
  check(kJob.qwen3());
}

TEST_P(SequenceLayouts, OfGemmasToo) {
  check(kJob.gemma3());
}

TEST_P(SequenceLayouts, OfLogitsInPartsToo) {
  check(kLossParts);
}

TEST_P(SequenceLayouts, OfPostNormDecodersToo) {
  check(kJob.post_norm_decoder());
}

INSTANTIATE_TEST_SUITE_P(Precisions, SequenceLayouts, testing::precisions_tied_or_not(),
                         testing::precision_and_tied_name);

Build bert(std::int64_t classes) {
  return [classes](bool) {
    return build_bert({.layers = 4,
                       .hidden = 32,
                       .heads = 8,
                       .vocab = ChunkedJob::kVocab,
                       .seq_len = kJob.seq_len,
                       .dropout = 0.1f,
                       .classes = classes,
                       .tensor_chunks = ChunkedJob::kChunks});
  };
}

// Every tensor rank has the whole embedding and head.
TEST(SequenceLayouts, OfBertsToo) {
  for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
    for (const std::int64_t classes : {std::int64_t{0}, ChunkedJob::kVocab}) {
      const RunOutcome expected = kJob.run(bert(classes), mode, true, {});
      EXPECT_TRUE(std::isfinite(expected.eval_loss));
      for (const Layout& layout : sampled(kSome, 3))
        EXPECT_TRUE(kJob.run(bert(classes), mode, true, layout) == expected) << layout.to_string();
    }
  }
}

// Logits need a second forward of the head, whose rows are gathered for it.
TEST(SequenceLayouts, LogitsCanBeObserved) {
  const auto logits_of = [](const Layout& layout) {
    std::vector<float> seen;
    run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
      GptConfig config = kJob.gpt(true);
      config.vocab = ChunkedJob::kVocab + 1;
      Engine engine(build_gpt(config), comm, kJob.options(PrecisionMode::kFp32, layout));
      engine.evaluate(testing::token_source(ChunkedJob::kVocab, kJob.seq_len, 777), 5, 5 * kJob.seq_len,
                      [&](const Tensor& logits, const Batch&) {
                        const std::vector<float> mine = engine.context().to_host(logits);
                        if (comm->rank() == 0) seen.insert(seen.end(), mine.begin(), mine.end());
                      });
    });
    return seen;
  };
  const std::vector<float> expected = logits_of({});
  EXPECT_EQ(expected.size(), 5u * kJob.seq_len * (ChunkedJob::kVocab + 1));
  EXPECT_EQ(logits_of({.tensor = 4, .sequence = true}), expected);
}

TEST(SequenceLayouts, WhatCannotBeSharedIsRefused) {
  const auto refusal = [](const GptConfig& config, const Layout& layout) {
    std::string message;
    run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
      try {
        Engine engine(build_gpt(config), comm, kJob.options(PrecisionMode::kFp32, layout));
        engine.step(testing::token_source(ChunkedJob::kVocab, config.seq_len, 0),
                    kJob.global_batch * config.seq_len, 1e-2);
      } catch (const Error& error) {
        if (comm->rank() == 0) message = error.what();
      }
    });
    return message;
  };
  GptConfig short_one = kJob.gpt(true), whole = kJob.gpt(true);
  short_one.seq_len = kJob.seq_len - 2;
  whole.tensor_chunks = 1;
  EXPECT_NE(refusal(kJob.gpt(true), {.sequence = true}).find("Layout::sequence needs"), std::string::npos);
  EXPECT_NE(refusal(short_one, {.tensor = 4, .sequence = true})
                .find("4 tensor ranks cannot share a sequence of 6 tokens equally"),
            std::string::npos);
  EXPECT_NE(refusal(whole, {.tensor = 2, .sequence = true}).find("the model has one tensor chunk"),
            std::string::npos);
  run_local_ranks(2, [](const std::shared_ptr<Communicator>& comm) {  // with a class token
    const VitConfig vit{
        .layers = 1, .hidden = 16, .heads = 2, .ffn = 32, .patch = 4, .image_size = 16, .tensor_chunks = 2};
    try {
      const Engine engine(build_vit(vit), comm, {.layout = {.tensor = 2, .sequence = true}});
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("block 'embedding' does not support sequence parallelism"),
                std::string::npos)
          << error.what();
    }
  });
}

const Build kOddGpt = [](bool tied) {
  GptConfig config = kJob.gpt(tied);
  config.vocab = ChunkedJob::kVocab + 1;
  return build_gpt(config);
};
const Build kOddLlama = [](bool tied) {
  LlamaConfig config = kJob.llama(tied);
  config.vocab = ChunkedJob::kVocab + 1;
  return build_llama(config);
};

// If the chunks do not divide the vocabulary, every rank has the whole embedding and head: shards begin after
// the embedding, and are gathered before the head.
TEST(SequenceLayouts, WithWholeEmbeddingAndHead) {
  for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
    const RunOutcome expected = kJob.run(kOddGpt, mode, true, {});
    for (const Layout& layout : sampled(kSome, 3))
      EXPECT_TRUE(kJob.run(kOddGpt, mode, true, layout) == expected) << layout.to_string();
  }
}

std::string describe(PrecisionMode mode, const std::vector<OpKind>& in_fp32) {
  std::string text(name(mode));
  for (const OpKind op : in_fp32)
    text += fmt::format(", {} in fp32", kOpPolicies[static_cast<std::size_t>(op)].name);
  return text;
}

// Ops in fp32 between products in 16 bits, and vice versa: rows are cast before they are gathered, so that
// products save shards. Each case uses another layout.
TEST(SequenceLayouts, WithOpsInFp32) {
  using enum OpKind;
  const std::vector<std::vector<OpKind>> cases = {{kLayerNorm, kRmsNorm},
                                                  {kAdd},
                                                  {kEmbedding},
                                                  {kDropout},
                                                  {kLinear},
                                                  {kAttention, kRope, kSwiglu, kSoftmaxCrossEntropy},
                                                  {kLayerNorm, kRmsNorm, kAdd, kDropout, kEmbedding}};
  std::size_t number = 0;
  for (const Build& build : {kGpt, kOddGpt, kLlama, kOddLlama, bert(0), bert(ChunkedJob::kVocab)}) {
    for (const auto& in_fp32 : sampled(cases, 3)) {
      const PrecisionMode mode = (number + number / 6) % 2 == 0 ? PrecisionMode::kBf16 : PrecisionMode::kFp16;
      Precision precision(mode);
      for (const OpKind op : in_fp32) precision.override_op(op, PrecisionMode::kFp32);
      const Layout& layout = kSome[1 + number++ % 6];
      const RunOutcome expected = kJob.run(build, precision, true, {});
      EXPECT_TRUE(std::isfinite(expected.eval_loss));
      EXPECT_TRUE(kJob.run(build, precision, true, layout) == expected)
          << describe(mode, in_fp32) << ": " << layout.to_string();
    }
  }
}

// Stopped after a step on one layout, and continued on another, with and without sequence shards.
TEST(SequenceLayouts, CheckpointsResumeOnAnyOther) {
  const RunOutcome expected = kJob.run(kGpt, PrecisionMode::kBf16, true, {});
  for (const Layout& from : sampled(kSome, 3)) {
    const testing::TemporaryFolder folder;
    run_local_ranks(from.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(kJob.gpt(true)), comm, kJob.options(PrecisionMode::kBf16, from));
      kJob.train(engine, kJob.steps - 1);
      save_state(engine, folder.path());
    });
    for (const Layout& to : {Layout{}, kSome[0], kSome[2], kSome[6]}) {
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

}  // namespace
}  // namespace trireme

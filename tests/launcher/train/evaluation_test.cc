#include "launcher/train/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "launcher/train/top_k.h"
#include "models/resnet.h"
#include "parallel/comm/local.h"
#include "runtime/data/synthetic_images.h"
#include "runtime/data/synthetic_tokens.h"
#include "tests/support/tiny_gpt.h"
#include "tests/support/tiny_resnet.h"

namespace trireme {
namespace {

TEST(TopK, RanksTheTarget) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> logits = {1, 3, 2, 3, -1};
  EXPECT_EQ(rank_of_target(logits, 1), 0);
  EXPECT_EQ(rank_of_target(logits, 3), 1);  // on ties the smaller number comes first
  EXPECT_EQ(rank_of_target(logits, 2), 2);
  EXPECT_EQ(rank_of_target(logits, 4), 4);
  EXPECT_EQ(rank_of_target(std::vector<float>{nan, 0}, 1), 0);
  EXPECT_EQ(rank_of_target(std::vector<float>{nan, 0}, 0), 2);
}

TEST(TopK, SumsTheRanks) {
  const TopK counts[] = {
      {.top1 = 1, .top5 = 4, .num_targets = 6}, {}, {.top1 = 2, .top5 = 2, .num_targets = 3}};
  const TopK total = TopK::sum(counts);
  EXPECT_EQ(total.top1, 3);
  EXPECT_EQ(total.top5, 6);
  EXPECT_FALSE(TopK{.num_classes = 5}.tells_top5());
  EXPECT_TRUE(TopK::sum(std::vector<TopK>{{.num_classes = 6}, {}}).tells_top5()) << "a rank without samples";
  EXPECT_EQ(total.num_targets, 9);
}

// Answers are runs of targets: they end at a token that is left out, and at the end of a sample.
TEST(TopK, CountsExactAnswers) {
  constexpr std::int32_t kOut = -1;
  const std::vector<std::int32_t> targets = {0, 1, kOut, 1, 1, kOut, 1, 0,  // exact, exact, and 1 at the end
                                             0, 0, 1,    0, 0, kOut, 0, kOut};  // wrong, exact
  const std::vector<std::int32_t> best = {0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1};
  std::vector<float> logits;
  for (const std::int32_t token : best)
    logits.insert(logits.end(), {token == 0 ? 1.0f : 0.0f, token == 1 ? 1.0f : 0.0f});
  const Context ctx = Context::create({DeviceType::kCpu, 0}, 1);
  const HostLogits host(ctx, ctx.from_host(logits.data(), {2, 8, 2}, DType::kFloat32),
                        ctx.from_host(targets.data(), {2, 8}, DType::kInt32));
  TopK counts;
  counts.add(host, 8);
  EXPECT_EQ(counts.num_targets, 12);
  EXPECT_EQ(counts.top1, 11);
  EXPECT_EQ(counts.num_answers, 5);
  EXPECT_EQ(counts.exact_answers, 4);
  EXPECT_EQ(TopK::sum(std::vector<TopK>{counts, counts}).exact_answers, 8);
}

// 13 samples in micro-batches of 2: the last one is half full, and some ranks have fewer.
TEST(Evaluation, IsTheSameOnEveryLayout) {
  const ResNetConfig config{
      .stem = ResNetConfig::Stem::kCifar, .bottleneck = false, .units = {1}, .width = 4, .classes = 8};
  const auto data = std::make_shared<SyntheticImages>(
      SyntheticImages::Options{.num_samples = 13, .size = 8, .num_classes = 8, .seed = 2});
  std::vector<EvalMetrics> results;
  TopK expected;
  for (const int ranks : {1, 2, 3}) {
    for (const int zero : {0, 3}) {
      run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
        Engine engine(build_resnet(config), comm,
                      {.global_batch = 2 * ranks,
                       .micro_batch = 2,
                       .seed = 3,
                       .layout = {.zero = static_cast<ZeroStage>(zero)}});
        const EvalMetrics metrics =
            evaluate(engine, {.dataset = data, .num_samples = 13, .workers = 2, .counts_top_k = true});
        if (comm->rank() == ranks - 1) results.push_back(metrics);
        if (ranks > 1 || zero > 0) return;
        for (std::int64_t i = 0; i < 13; ++i) {
          const HostBatch sample = data->read_sequential(i, 1);
          const auto logits = engine.context().to_host(engine.infer(sample));
          const std::int64_t rank = rank_of_target(logits, sample.targets[0]);
          expected.top1 += rank < 1;
          expected.top5 += rank < 5;
        }
      });
    }
  }
  ASSERT_EQ(results.size(), 6u);
  for (const EvalMetrics& metrics : results) {
    EXPECT_EQ(metrics.loss, results[0].loss);
    EXPECT_EQ(metrics.top1, static_cast<double>(expected.top1) / 13);
    EXPECT_EQ(metrics.top5, static_cast<double>(expected.top5) / 13);
  }
  EXPECT_TRUE(std::isfinite(results[0].loss));
  EXPECT_GT(expected.top5, expected.top1);
}

// 5 sequences of 16 targets each.
TEST(Evaluation, CountsTheNextTokens) {
  const GptConfig config = testing::tiny_gpt_config();
  const auto data = std::make_shared<SyntheticTokens>(SyntheticTokens::Options{
      .num_samples = 5, .sequence_length = 16, .vocab_size = config.vocab, .seed = 2});
  Engine engine(build_gpt(config), LocalWorld(1).communicator(0),
                {.global_batch = 2, .micro_batch = 2, .seed = 3});
  const EvalMetrics metrics = evaluate(engine, {.dataset = data, .num_samples = 5, .counts_top_k = true});
  const EvalMetrics plain = evaluate(engine, {.dataset = data, .num_samples = 5});
  EXPECT_EQ(metrics.loss, plain.loss);
  EXPECT_EQ(metrics.num_samples, 5);
  std::int64_t top1 = 0, top5 = 0;
  for (std::int64_t i = 0; i < 5; ++i) {
    const HostBatch sample = data->read_sequential(i, 1);
    const auto logits = engine.context().to_host(engine.infer(sample));
    for (std::size_t t = 0; t < 16; ++t) {
      const auto vocab = static_cast<std::size_t>(config.vocab);
      const std::int64_t rank =
          rank_of_target(std::span(logits).subspan(t * vocab, vocab), sample.targets[t]);
      top1 += rank < 1;
      top5 += rank < 5;
    }
  }
  EXPECT_EQ(metrics.top1, static_cast<double>(top1) / 80);
  EXPECT_EQ(metrics.top5, static_cast<double>(top5) / 80);
  EXPECT_GT(top5, 0);
}

}  // namespace
}  // namespace trireme

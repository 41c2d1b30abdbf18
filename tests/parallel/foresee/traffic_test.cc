// Bytes sent against Rajbhandari et al. 2020, section 7: 2 psi per step and rank for stages 0 to 2, 3 psi for
// stage 3, times (N - 1) / N. psi includes the padding that travels. Scalars, partial norms and losses are
// counted separately. Exact for one micro-batch per rank.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <mutex>
#include <numeric>

#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

GptConfig model(bool tied) {
  GptConfig config = testing::tiny_gpt_config();
  config.tied = tied;
  return config;
}

EngineOptions options_for(int ranks, int zero, int per_rank = 1) {
  return {
      .global_batch = ranks * per_rank, .grad_clip = 1.0f, .layout = {.zero = static_cast<ZeroStage>(zero)}};
}

StepPrediction predict(const GptConfig& config, const EngineOptions& options, int ranks) {
  const auto blocks = std::make_shared<const BlockList>(build_gpt(config));
  const Shape tokens{config.seq_len};
  return predict_step(blocks, options, {.input = tokens, .target = tokens}, ranks, 0);
}

// Elements of all groups, with the padding that travels.
std::int64_t padded_elems(const ModelLayout& layout, int ranks) {
  return std::accumulate(layout.groups.begin(), layout.groups.end(), std::int64_t{0},
                         [&](std::int64_t sum, const ParamGroup& group) {
                           return sum + Sharding{ranks, 0}.padded(group.num_elems);
                         });
}

// Bytes sent by a rank that exchanges one of N pieces of `bytes` with all others.
std::int64_t share(std::int64_t bytes, int ranks) {
  return bytes / ranks * (ranks - 1);
}

// Norm partials travel if gradients are sharded: one number per norm block. Losses always travel.
std::int64_t scalar_bytes(std::int64_t elems, int ranks, int zero, int per_rank) {
  const std::int64_t norms = zero > 0 ? share(4 * elems / kNormBlock, ranks) : 0;
  return norms + share(std::int64_t{4} * ranks * per_rank, ranks);
}

TEST(Traffic, TwoAndThreeTimesTheParameters) {
  const GptConfig config = model(/*tied=*/false);
  const ModelLayout layout = make_layout(build_gpt(config));
  for (const int ranks : {2, 3, 4, 8}) {
    const std::int64_t elems = padded_elems(layout, ranks);
    for (const int zero : {0, 1, 2, 3}) {
      const StepPrediction predicted = predict(config, options_for(ranks, zero), ranks);
      const std::int64_t scalars = scalar_bytes(elems, ranks, zero, 1);
      const int volume = zero == 3 ? 3 : 2;
      EXPECT_EQ(predicted.sent_bytes - scalars, volume * share(4 * elems, ranks))
          << ranks << " ranks, zero " << zero;
      const std::int64_t exact = volume * share(4 * layout.num_parameters, ranks);
      fmt::print(
          "zero {} on {} ranks: {:>7} B sent = {} psi (N-1)/N x 4 B {:>7} + padding {:>6} + scalars {}\n",
          zero, ranks, predicted.sent_bytes, volume, exact, predicted.sent_bytes - scalars - exact, scalars);
    }
  }
}

TEST(Traffic, IsSplitByKindOfCallAndByAction) {
  const GptConfig config = model(/*tied=*/false);
  const ModelLayout layout = make_layout(build_gpt(config));
  const int ranks = 4;
  const std::int64_t once = share(4 * padded_elems(layout, ranks), ranks);
  for (const int zero : {0, 1, 2, 3}) {
    const StepPrediction predicted = predict(config, options_for(ranks, zero), ranks);
    const auto by = [&](CallKind kind) { return predicted.sent_by_call[static_cast<std::size_t>(kind)]; };
    EXPECT_EQ(by(CallKind::kAllToAll), once) << zero;  // gradients, added in order on arrival
    EXPECT_EQ(by(CallKind::kAllGather),
              (zero == 3 ? 2 : 1) * once + scalar_bytes(padded_elems(layout, ranks), ranks, zero, 1));
    EXPECT_EQ(by(CallKind::kAllToAll) + by(CallKind::kAllGather), predicted.sent_bytes);
    std::int64_t gathers = 0, all = 0;
    for (std::size_t i = 0; i < predicted.actions.size(); ++i) {
      all += predicted.actions[i].sent_bytes;
      if (predicted.plan.actions[i].kind == ActionKind::kGather) gathers += predicted.actions[i].sent_bytes;
    }
    EXPECT_EQ(all, predicted.sent_bytes);
    EXPECT_EQ(gathers, zero == 3 ? 2 * once : 0);
  }
}

// Prefetch only moves gathers forward; recompute keeps gathered parameters until its backward.
TEST(Traffic, PrefetchAndRecomputeSendNothingMore) {
  const GptConfig config = model(/*tied=*/false);
  EngineOptions options = options_for(4, 3);
  const std::int64_t expected = predict(config, options, 4).sent_bytes;
  for (const int depth : {0, 1, 2, 5}) {
    for (const int recompute : {0, 1, 2}) {
      options.layout.prefetch_depth = depth;
      options.layout.recompute_every = recompute;
      EXPECT_EQ(predict(config, options, 4).sent_bytes, expected) << depth << ", " << recompute;
    }
  }
}

// The gradient of a tied parameter is exchanged for each use, and its sum is gathered once. Stage 3 gathers
// the parameter for each use; if prefetch makes two uses overlap, once for both.
TEST(Traffic, EachUseOfATiedParameterIsExchangedApart) {
  const GptConfig config = model(/*tied=*/true);
  const ModelLayout layout = make_layout(build_gpt(config));
  const int ranks = 4;
  const std::int64_t elems = padded_elems(layout, ranks);
  const std::int64_t tied = Sharding{ranks, 0}.padded(layout.groups[0].num_elems);
  for (const int zero : {0, 1, 2, 3}) {
    const std::int64_t gathers = zero == 3 ? 2 * elems + 2 * tied : elems;
    EXPECT_EQ(
        predict(config, options_for(ranks, zero), ranks).sent_bytes - scalar_bytes(elems, ranks, zero, 1),
        share(4 * (elems + tied + gathers), ranks))
        << zero;
  }
}

// With m micro-batches per rank, stages 0 and 1 reduce once. Stages 2 and 3 reduce every one, unless they
// keep whole gradients. Stage 3 gathers for every forward and backward, unless it keeps gathered parameters.
TEST(Traffic, OfAccumulation) {
  const GptConfig config = model(/*tied=*/false);
  const ModelLayout layout = make_layout(build_gpt(config));
  const int ranks = 4, m = 4;
  const std::int64_t elems = padded_elems(layout, ranks);
  struct Case {
    int zero;
    bool unsharded, kept;
    int volume;
  };
  for (const Case& c :
       {Case{0, false, false, 2}, Case{1, false, false, 2}, Case{2, false, false, m + 1},
        Case{2, true, false, 2}, Case{3, false, false, 3 * m}, Case{3, true, false, 2 * m + 1},
        Case{3, false, true, m + 1}, Case{3, true, true, 2}}) {
    EngineOptions options = options_for(ranks, c.zero, m);
    options.layout.accumulate_unsharded = c.unsharded;
    options.layout.keep_gathered = c.kept;
    for (const int recompute : {0, 2}) {
      options.layout.recompute_every = recompute;
      EXPECT_EQ(predict(config, options, ranks).sent_bytes - scalar_bytes(elems, ranks, c.zero, m),
                c.volume * share(4 * elems, ranks))
          << "zero " << c.zero << (c.unsharded ? ", unsharded" : "") << (c.kept ? ", kept gathered" : "");
    }
  }
}

// Parameters that are kept gathered are gathered once for all uses of a tied parameter. With one micro-batch
// they are gathered once, not twice.
TEST(Traffic, OfParametersThatAreKeptGathered) {
  const GptConfig config = model(/*tied=*/true);
  const ModelLayout layout = make_layout(build_gpt(config));
  const int ranks = 4;
  const std::int64_t elems = padded_elems(layout, ranks);
  const std::int64_t tied = Sharding{ranks, 0}.padded(layout.groups[0].num_elems);
  for (const int m : {1, 4}) {
    for (const int prefetch : {0, 1, 3}) {
      EngineOptions options = options_for(ranks, 3, m);
      options.layout.accumulate_unsharded = true;
      options.layout.keep_gathered = true;
      options.layout.prefetch_depth = prefetch;
      EXPECT_EQ(predict(config, options, ranks).sent_bytes - scalar_bytes(elems, ranks, 3, m),
                share(4 * (elems + tied + elems), ranks))
          << m << " micro-batches, prefetch " << prefetch;
    }
  }
}

TEST(Traffic, TheCommunicatorCountsTheSame) {
  const GptConfig config = model(/*tied=*/false);
  const auto blocks = std::make_shared<const BlockList>(build_gpt(config));
  for (const int zero : {0, 1, 2, 3}) {
    const EngineOptions options = options_for(4, zero);
    const std::int64_t predicted = predict(config, options, 4).sent_bytes;
    run_local_ranks(4, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(blocks, comm, options);
      const std::int64_t before = comm->traffic().sent_bytes;
      engine.step(testing::token_source(config.vocab, config.seq_len, 0), 4 * config.seq_len, 1e-3);
      EXPECT_EQ(comm->traffic().sent_bytes - before, predicted) << zero;
    });
  }
}

}  // namespace
}  // namespace trireme

// One mathematics: the same state after every combination of ranks, ZeRO stage, recompute and accumulation.
#include <gtest/gtest.h>

#include <array>
#include <mutex>

#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 16;

struct LayoutCase {
  int ranks = 1;
  int zero = 0;
  int recompute = 0;
  bool unsharded = false;
  bool kept = false;
  int prefetch = 1;
  std::int64_t group_min_bytes = 0;
  Precision precision;
  std::string to_string() const {
    return fmt::format("{} ranks, zero {}{}{}, recompute {}, prefetch {}, groups of {} B", ranks, zero,
                       unsharded ? " unsharded" : "", kept ? " kept gathered" : "", recompute, prefetch,
                       group_min_bytes);
  }
};

GptConfig model() {
  GptConfig config = testing::tiny_gpt_config();
  config.layers = 4;
  config.dropout = 0.1f;
  return config;
}

EngineOptions options_for(const LayoutCase& layout) {
  return {.global_batch = kGlobalBatch,
          .micro_batch = 2,
          .seed = 9,
          .optimizer = {.weight_decay = 0.1f},
          .grad_clip = 0.7f,
          .layout = {.zero = static_cast<ZeroStage>(layout.zero),
                     .accumulate_unsharded = layout.unsharded,
                     .keep_gathered = layout.kept,
                     .prefetch_depth = layout.prefetch,
                     .group_min_bytes = layout.group_min_bytes,
                     .recompute_every = layout.recompute},
          .precision = layout.precision};
}

void train(Engine& engine, std::int64_t to_step) {
  const GptConfig config = model();
  while (engine.steps_done() < to_step) {
    engine.step(testing::token_source(config.vocab, config.seq_len, engine.steps_done() * kGlobalBatch),
                kGlobalBatch * config.seq_len, 1e-2);
  }
}

struct Outcome {
  std::uint64_t hash = 0;
  float eval_loss = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(Engine& engine) {
  const GptConfig config = model();
  return {engine.state_hash(),
          engine.evaluate(testing::token_source(config.vocab, config.seq_len, 777), 11, 11 * config.seq_len)};
}

Outcome run(const LayoutCase& layout, std::int64_t steps = 5) {
  Outcome outcome;
  run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(model()), comm, options_for(layout));
    train(engine, steps);
    const Outcome mine = outcome_of(engine);
    if (comm->rank() == 0) outcome = mine;
  });
  return outcome;
}

TEST(Layouts, EveryCombinationGivesTheSameState) {
  constexpr std::int64_t kSteps = testing::kSanitized ? 4 : 20;
  const Outcome expected = run({}, kSteps);
  for (const int ranks : {1, 2, 4, 8}) {
    for (const int zero : {0, 1, 2, 3}) {
      for (const int recompute : {0, 1, 2}) {
        const LayoutCase layout{.ranks = ranks, .zero = zero, .recompute = recompute};
        EXPECT_TRUE(run(layout, kSteps) == expected) << layout.to_string();
      }
    }
  }
  for (const int zero : {2, 3}) {
    const LayoutCase layout{.ranks = 4, .zero = zero, .unsharded = true};
    EXPECT_TRUE(run(layout, kSteps) == expected) << layout.to_string();
  }
}

// Eight micro-batches: some ranks have one fewer than others. See [Note: uneven layouts].
TEST(Layouts, UnevenLayoutsGiveTheSameState) {
  const Outcome expected = run({});
  for (const int ranks : {3, 5, 6, 7}) {
    for (const int zero : {0, 1, 2, 3}) {
      for (const int recompute : {0, 2}) {
        for (const bool kept : {false, true}) {
          if (kept && zero < 3) continue;
          const LayoutCase layout{
              .ranks = ranks, .zero = zero, .recompute = recompute, .unsharded = zero >= 2, .kept = kept};
          EXPECT_TRUE(run(layout) == expected) << layout.to_string();
        }
      }
    }
  }
}

TEST(Layouts, UnevenRoundsAreRefusedWithTheKeyThatHelps) {
  run_local_ranks(3, [&](const std::shared_ptr<Communicator>& comm) {
    try {
      const Engine engine(build_gpt(model()), comm, options_for({.ranks = 3, .zero = 2}));
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what())
                    .find("Layout::accumulate_unsharded = true lets ranks have unequally many"),
                std::string::npos)
          << error.what();
    }
  });
}

// The whole model in two groups (its tied table stays separate), the blocks in one, and none merged.
TEST(Layouts, MergedGroupsAndPrefetchGiveTheSameState) {
  const ModelLayout whole = make_layout(build_gpt(model()));
  const std::int64_t block_bytes = whole.groups[2].num_elems * 4;
  EXPECT_EQ(make_layout(build_gpt(model()), 1 << 30).groups.size(), 2u);
  EXPECT_EQ(make_layout(build_gpt(model()), block_bytes).groups.size(), whole.groups.size());
  const Outcome expected = run({});
  for (const std::int64_t group_min_bytes : {std::int64_t{1} << 30, block_bytes + 1}) {
    for (const int ranks : testing::sampled(std::array{4, 2, 1}, 3)) {
      for (const int zero : {0, 1, 2, 3}) {
        for (const int recompute : {0, 2}) {
          const LayoutCase layout{
              .ranks = ranks, .zero = zero, .recompute = recompute, .group_min_bytes = group_min_bytes};
          EXPECT_TRUE(run(layout) == expected) << layout.to_string();
        }
      }
    }
  }
  Precision half(PrecisionMode::kBf16);
  half.grad_dtype = DType::kBFloat16;
  const Outcome expected_half = run({.precision = half});
  for (const int zero : {0, 1, 2, 3}) {
    const LayoutCase layout{.ranks = 4, .zero = zero, .group_min_bytes = 1 << 30, .precision = half};
    EXPECT_TRUE(run(layout) == expected_half) << "bf16, " << layout.to_string();
  }
  for (const int prefetch : {0, 2, 3, 100}) {
    for (const std::int64_t group_min_bytes : {std::int64_t{0}, std::int64_t{1} << 30}) {
      const LayoutCase layout{
          .ranks = 4, .zero = 3, .prefetch = prefetch, .group_min_bytes = group_min_bytes};
      EXPECT_TRUE(run(layout) == expected) << layout.to_string();
    }
  }
}

TEST(Layouts, OffloadGivesTheSameStateAndCountsItAsHostMemory) {
  const GptConfig config = model();
  const Outcome expected = run({});
  for (const int zero : {0, 3}) {
    run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
      EngineOptions options = options_for({.ranks = 2, .zero = zero});
      Engine kept(build_gpt(config), comm, options);
      options.offload = Offload::kOptimizer;
      Engine offloaded(build_gpt(config), comm, options);
      train(kept, 5);
      train(offloaded, 5);
      EXPECT_TRUE(outcome_of(offloaded) == expected) << zero;
      const MemoryCounts here = kept.context().allocator->stats().current;
      const MemoryCounts host = offloaded.context().allocator->stats().current;
      // Scalars remain: learning rate, clip coefficient, norm, steps and other single numbers.
      EXPECT_LE(host[MemoryCategory::kOptimizer], 32 * static_cast<std::int64_t>(Allocator::kAlignment));
      EXPECT_EQ(host[MemoryCategory::kOptimizer] + host[MemoryCategory::kHost],
                here[MemoryCategory::kOptimizer]);
      EXPECT_EQ(host.total(), here.total());
    });
  }
}

// Merging saves the padding of each group's end, and messages.
TEST(Layouts, MergedGroupsSendLessPadding) {
  const GptConfig config = model();
  const auto blocks = std::make_shared<const BlockList>(build_gpt(config));
  const SampleSpec sample{.input = {config.seq_len}, .target = {config.seq_len}};
  for (const int zero : {1, 2, 3}) {
    EngineOptions options = options_for({.ranks = 8, .zero = zero});
    const StepPrediction apart = predict_step(blocks, options, sample, 8, 0);
    options.layout.group_min_bytes = 1 << 30;
    const StepPrediction merged = predict_step(blocks, options, sample, 8, 0);
    EXPECT_LT(merged.sent_bytes, apart.sent_bytes) << zero;
    EXPECT_LT(merged.memory.peak[MemoryCategory::kOptimizer], apart.memory.peak[MemoryCategory::kOptimizer]);
  }
}

TEST(Layouts, FastReductionWorksWithEveryStageAndAgreesUpToRounding) {
  const GptConfig config = model();
  const auto losses = [&](int ranks, int zero, Reduction reduction) {
    std::vector<float> result;
    run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
      EngineOptions options = options_for({.ranks = ranks, .zero = zero});
      options.reduction = reduction;
      if (reduction == Reduction::kFast) options.layout.group_min_bytes = 1 << 30;
      Engine engine(build_gpt(config), comm, options);
      for (int step = 0; step < 3; ++step) {
        const StepResult done =
            engine.step(testing::token_source(config.vocab, config.seq_len, step * kGlobalBatch),
                        kGlobalBatch * config.seq_len, 1e-2);
        if (comm->rank() == 0) result.push_back(done.loss);
      }
    });
    return result;
  };
  const std::vector<float> expected = losses(1, 0, Reduction::kCanonical);
  for (const int ranks : {1, 4}) {
    for (const int zero : {0, 1, 2, 3}) {
      const std::vector<float> fast = losses(ranks, zero, Reduction::kFast);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(fast[i], expected[i], 1e-4f * expected[i])
            << ranks << " ranks, zero " << zero << ", step " << i;
      }
    }
  }
}

// Receive buffers live for one exchange, for any number of ranks: they do not grow with the micro-batches.
TEST(Layouts, CommunicationMemoryDoesNotGrowWithAccumulation) {
  const GptConfig config = model();
  const auto blocks = std::make_shared<const BlockList>(build_gpt(config));
  const SampleSpec sample{.input = {config.seq_len}, .target = {config.seq_len}};
  for (const int ranks : {2, 3, 5}) {
    std::vector<std::int64_t> peaks;
    for (const std::int64_t per_rank : {1, 4}) {
      EngineOptions options = options_for({.ranks = ranks, .zero = 2});
      options.global_batch = ranks * per_rank * options.micro_batch;
      peaks.push_back(
          predict_step(blocks, options, sample, ranks, 0).memory.peak[MemoryCategory::kCommunication]);
    }
    EXPECT_EQ(peaks[0], peaks[1]) << ranks << " ranks";
  }
}

// Checks every rank, every category and the total; the libraries' workspaces are excluded.
void expect_predicted(const LayoutCase& layout, std::int64_t micro_batches = 24) {
  const GptConfig config = model();
  const auto blocks = std::make_shared<const BlockList>(build_gpt(config));
  const SampleSpec sample{.input = {config.seq_len}, .target = {config.seq_len}};
  EngineOptions options = options_for(layout);
  options.global_batch = micro_batches * options.micro_batch;
  std::mutex mutex;
  run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(blocks, comm, options);
    const StepPrediction predicted = predict_step(blocks, options, sample, layout.ranks, comm->rank());
    for (int step = 0; step < 2; ++step) {
      StepResult measured = engine.step(testing::token_source(config.vocab, config.seq_len, 0),
                                        options.global_batch * config.seq_len, 1e-3);
      measured.memory.peak[MemoryCategory::kWorkspace] = 0;
      const std::lock_guard lock(mutex);
      EXPECT_EQ(measured.memory.peak.bytes, predicted.memory.peak.bytes) << layout.to_string();
      EXPECT_EQ(measured.memory.peak_total, predicted.memory.peak_total) << layout.to_string();
      EXPECT_EQ(measured.sent_bytes, predicted.sent_bytes) << layout.to_string();
    }
  });
}

TEST(Layouts, PredictionEqualsMeasurement) {
  for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
    for (const int ranks : testing::sampled(std::array{4, 1, 2, 3, 8}, 4)) {
      for (const int zero : {0, 1, 2, 3}) {
        for (const int recompute : {0, 1, 2}) {
          LayoutCase layout{
              .ranks = ranks, .zero = zero, .recompute = recompute, .precision = Precision(mode)};
          if (ranks == 4) layout.group_min_bytes = 1 << 20;
          expect_predicted(layout);
        }
      }
    }
  }
}

TEST(Layouts, PredictionEqualsMeasurementOfUnevenLayouts) {
  for (const int ranks : {3, 5}) {
    for (const int zero : {0, 1, 2, 3}) {
      for (const bool kept : {false, true}) {
        if (kept && zero < 3) continue;
        expect_predicted({.ranks = ranks, .zero = zero, .unsharded = zero >= 2, .kept = kept}, 8);
      }
    }
  }
}

TEST(Layouts, ACheckpointOfAnyLayoutResumesUnderAnyOther) {
  const testing::TemporaryFolder folder;
  const Outcome expected = run({}, 6);
  const std::vector<LayoutCase> chain = {{.ranks = 4, .zero = 3, .unsharded = true, .kept = true},
                                         {.ranks = 2, .zero = 3, .kept = true},
                                         {.ranks = 8, .zero = 2, .recompute = 1}};
  std::int64_t step = 0;
  for (const LayoutCase& layout : chain) {
    Outcome outcome;
    run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(model()), comm, options_for(layout));
      if (step > 0) load_state(engine, folder.path(), StateParts::kAll);
      engine.set_steps_done(step);
      train(engine, step + 2);
      comm->barrier();  // all ranks have read before the files are replaced
      save_state(engine, folder.path());
      const Outcome mine = outcome_of(engine);
      if (comm->rank() == 0) outcome = mine;
    });
    step += 2;
    if (step == 6) {
      EXPECT_TRUE(outcome == expected) << layout.to_string();
    }
  }
}

}  // namespace
}  // namespace trireme

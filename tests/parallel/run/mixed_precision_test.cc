// Training in tf32, fp16, bf16 and fp8: one mathematics, predicted memory, and the distance of gradients from
// fp32's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>

#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 16;

struct Case {
  PrecisionMode mode = PrecisionMode::kFp32;
  DType grad_dtype = DType::kFloat32;
  bool override_attention = false;
  std::string to_string() const {
    return fmt::format("{}_grad_{}{}", name(mode), name(grad_dtype),
                       override_attention ? "_attention_fp32" : "");
  }
};

struct LayoutCase {
  int ranks = 1, zero = 0, recompute = 0;
  std::string to_string() const {
    return fmt::format("{} ranks, zero {}, recompute {}", ranks, zero, recompute);
  }
};

GptConfig model() {
  GptConfig config = testing::tiny_gpt_config();
  config.layers = 3;
  config.dropout = 0.1f;
  return config;
}

EngineOptions options_for(const Case& c, const LayoutCase& layout) {
  EngineOptions options{
      .global_batch = kGlobalBatch,
      .micro_batch = 2,
      .seed = 9,
      .optimizer = {.weight_decay = 0.1f},
      .grad_clip = 0.7f,
      .layout = {.zero = static_cast<ZeroStage>(layout.zero), .recompute_every = layout.recompute},
      .precision = Precision(c.mode)};
  if (c.override_attention) options.precision.override_op(OpKind::kAttention, PrecisionMode::kFp32);
  options.precision.grad_dtype = c.grad_dtype;
  if (c.mode == PrecisionMode::kFp16) {
    // Too large at first: some steps are skipped.
    options.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic, .initial = 0x1p24f, .growth_interval = 2};
  }
  return options;
}

int train(Engine& engine, std::int64_t to_step) {
  const GptConfig config = model();
  int skipped = 0;
  while (engine.steps_done() < to_step) {
    skipped +=
        engine
            .step(testing::token_source(config.vocab, config.seq_len, engine.steps_done() * kGlobalBatch),
                  kGlobalBatch * config.seq_len, 1e-2)
            .skipped;
  }
  return skipped;
}

struct Outcome {
  std::uint64_t hash = 0;
  float eval_loss = 0;
  LossScaleState scale;
  int skipped = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(Engine& engine, int skipped) {
  const GptConfig config = model();
  return {engine.state_hash(),
          engine.evaluate(testing::token_source(config.vocab, config.seq_len, 777), 11, 11 * config.seq_len),
          engine.loss_scale_state(), skipped};
}

constexpr std::int64_t kSteps = 14;

Outcome run(const Case& c, const LayoutCase& layout, std::int64_t steps = kSteps) {
  Outcome outcome;
  run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(model()), comm, options_for(c, layout));
    const int skipped = train(engine, steps);
    const Outcome mine = outcome_of(engine, skipped);
    if (comm->rank() == 0) outcome = mine;
  });
  return outcome;
}

class MixedPrecision : public ::testing::TestWithParam<Case> {};

TEST_P(MixedPrecision, EveryLayoutGivesTheSameState) {
  const Outcome expected = run(GetParam(), {});
  EXPECT_TRUE(std::isfinite(expected.eval_loss));
  if (GetParam().mode == PrecisionMode::kFp16) {
    EXPECT_GT(expected.skipped, 0);
    EXPECT_LT(expected.skipped, kSteps - 3);
  }
  // Every number of ranks, stage and mode of recompute, and most pairs of them.
  for (const LayoutCase& layout :
       {LayoutCase{1, 0, 1}, LayoutCase{1, 3, 2}, LayoutCase{2, 0, 0}, LayoutCase{2, 2, 1},
        LayoutCase{2, 3, 2}, LayoutCase{4, 0, 2}, LayoutCase{4, 1, 0}, LayoutCase{4, 2, 2},
        LayoutCase{4, 3, 1}, LayoutCase{8, 1, 1}, LayoutCase{8, 3, 0}}) {
    EXPECT_TRUE(run(GetParam(), layout) == expected) << layout.to_string();
  }
}

TEST(MixedPrecisionGrid, EveryCombinationInBf16GivesTheSameState) {
  constexpr std::int64_t kManySteps = 20;
  const Case bf16{PrecisionMode::kBf16};
  const Outcome expected = run(bf16, {}, kManySteps);
  for (const int ranks : {1, 2, 4, 8}) {
    for (const int zero : {0, 1, 2, 3}) {
      for (const int recompute : {0, 1, 2}) {
        const LayoutCase layout{.ranks = ranks, .zero = zero, .recompute = recompute};
        EXPECT_TRUE(run(bf16, layout, kManySteps) == expected) << layout.to_string();
      }
    }
  }
}

TEST_P(MixedPrecision, ResumesUnderAnyLayout) {
  const testing::TemporaryFolder folder;
  const Outcome expected = run(GetParam(), {});
  std::int64_t step = 0;
  int skipped = 0;
  LossScaleState scale;
  Outcome outcome;
  for (const LayoutCase& layout :
       {LayoutCase{.ranks = 2, .zero = 3}, LayoutCase{.ranks = 1}, LayoutCase{.ranks = 4, .recompute = 1}}) {
    const std::int64_t last = std::min<std::int64_t>(step + 5, kSteps);
    run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(model()), comm, options_for(GetParam(), layout));
      if (step > 0) {
        load_state(engine, folder.path(), StateParts::kAll);
        engine.set_steps_done(step);
        engine.set_loss_scale_state(scale);
      }
      const int more = train(engine, last);
      comm->barrier();  // all ranks have read before the files are replaced
      save_state(engine, folder.path());
      const Outcome mine = outcome_of(engine, skipped + more);
      comm->barrier();  // all ranks have read `scale` and `skipped`
      if (comm->rank() != 0) return;
      outcome = mine;
      scale = mine.scale;
      skipped = mine.skipped;
    });
    step = last;
  }
  EXPECT_TRUE(outcome == expected);
}

TEST_P(MixedPrecision, PredictionEqualsMeasurement) {
  const GptConfig config = model();
  const auto blocks = std::make_shared<const BlockList>(build_gpt(config));
  const SampleSpec sample{.input = {config.seq_len}, .target = {config.seq_len}};
  for (const LayoutCase& layout :
       {LayoutCase{}, LayoutCase{.recompute = 1}, LayoutCase{.ranks = 2, .zero = 1},
        LayoutCase{.ranks = 4, .zero = 3}, LayoutCase{.ranks = 4, .zero = 2, .recompute = 2}}) {
    const EngineOptions options = options_for(GetParam(), layout);
    std::mutex mutex;
    run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(blocks, comm, options);
      const StepPrediction predicted = predict_step(blocks, options, sample, layout.ranks, comm->rank());
      for (int step = 0; step < 2; ++step) {
        StepResult measured = engine.step(testing::token_source(config.vocab, config.seq_len, 0),
                                          kGlobalBatch * config.seq_len, 1e-3);
        measured.memory.peak[MemoryCategory::kWorkspace] = 0;
        const std::lock_guard lock(mutex);
        EXPECT_EQ(measured.memory.peak.bytes, predicted.memory.peak.bytes) << layout.to_string();
        EXPECT_EQ(measured.memory.peak_total, predicted.memory.peak_total) << layout.to_string();
        EXPECT_EQ(measured.sent_bytes, predicted.sent_bytes) << layout.to_string();
      }
    });
  }
}

constexpr PrecisionMode kTf32 = PrecisionMode::kTf32, kFp16 = PrecisionMode::kFp16,
                        kBf16 = PrecisionMode::kBf16, kFp8 = PrecisionMode::kFp8;

INSTANTIATE_TEST_SUITE_P(Cases, MixedPrecision,
                         ::testing::Values(Case{kTf32}, Case{kFp16}, Case{kBf16},
                                           Case{kBf16, DType::kBFloat16}, Case{kFp16, DType::kFloat16},
                                           Case{kBf16, DType::kFloat32, true}, Case{kFp8},
                                           Case{kFp8, DType::kBFloat16}),
                         [](const auto& info) { return info.param.to_string(); });

// GPT-2's proportions at a size where rounding to 64 bytes does not matter.
const GptConfig kSmall{.layers = 4, .hidden = 128, .heads = 4, .vocab = 512, .seq_len = 64};

TEST(MixedPrecisionMemory, ActivationsTakeHalfAndGradientsTooWhereAsked) {
  GptConfig deep = kSmall;
  deep.layers = 24;  // the fp32 part of 16-bit gradients, one block's in flight, is then small
  const auto blocks = std::make_shared<const BlockList>(build_gpt(deep));
  const auto peak = [&](const Case& c) {
    EngineOptions options = options_for(c, {});
    options.micro_batch = 8;
    return predict_step(blocks, options, {.input = {kSmall.seq_len}, .target = {kSmall.seq_len}}, 1, 0)
        .memory.peak;
  };
  const MemoryCounts fp32 = peak({});
  for (const PrecisionMode mode : {kFp16, kBf16}) {
    const MemoryCounts mixed = peak({mode});
    const auto ratio = [&](MemoryCategory c) {
      return static_cast<double>(mixed[c]) / static_cast<double>(fp32[c]);
    };
    RecordProperty(fmt::format("activations_{}", name(mode)),
                   fmt::format("{}", ratio(MemoryCategory::kActivations)));
    EXPECT_LE(ratio(MemoryCategory::kActivations), 0.55);
    EXPECT_NEAR(ratio(MemoryCategory::kParameters), 1.5,
                1e-6);  // a master and a working copy of half its size
    EXPECT_NEAR(ratio(MemoryCategory::kOptimizer), 1.0, 1e-3);
    EXPECT_EQ(mixed[MemoryCategory::kGradients], fp32[MemoryCategory::kGradients]);
  }
  const MemoryCounts small = peak({kBf16, DType::kBFloat16});
  EXPECT_LT(static_cast<double>(small[MemoryCategory::kGradients]),
            0.6 * static_cast<double>(fp32[MemoryCategory::kGradients]));
}

using Gradients = std::map<std::string, std::vector<float>>;

// Gradients of step 1, without the loss scale.
Gradients gradients_of(const Case& c, float loss_scale) {
  EngineOptions options = options_for(c, {});
  options.micro_batch = 4;
  options.loss_scale = {.kind = LossScaleConfig::Kind::kStatic, .initial = loss_scale};
  Engine engine(build_gpt(kSmall), LocalWorld(1).communicator(0), options);
  Gradients gradients;
  engine.observe_gradients([&](const std::string& parameter, const Tensor& gradient) {
    std::vector<float>& values = gradients[parameter] = engine.context().to_host(gradient);
    for (float& value : values) value /= loss_scale;
  });
  engine.step(testing::token_source(kSmall.vocab, kSmall.seq_len, 0), kGlobalBatch * kSmall.seq_len, 0.0);
  return gradients;
}

double relative_error(const Gradients& got, const Gradients& want, const std::string& only = "") {
  double difference = 0, norm = 0;
  for (const auto& [parameter, values] : want) {
    if (!only.empty() && parameter != only) continue;
    for (std::size_t i = 0; i < values.size(); ++i) {
      difference += std::pow(static_cast<double>(got.at(parameter)[i]) - values[i], 2);
      norm += std::pow(static_cast<double>(values[i]), 2);
    }
  }
  return std::sqrt(difference / norm);
}

TEST(MixedPrecisionGradients, AreNearFp32) {
  const Gradients fp32 = gradients_of({}, 1.0f);
  struct Bound {
    Case c;
    float scale;
    double bound;
  };
  for (const auto& [c, scale, bound] :
       {Bound{{kTf32}, 1.0f, 0x1p-9}, Bound{{kFp16}, 65536.0f, 0x1p-9}, Bound{{kBf16}, 1.0f, 0x1p-7},
        // Four more additions, and a rounding of the leaves.
        Bound{{kFp16, DType::kFloat16}, 65536.0f, 0x1p-9}, Bound{{kBf16, DType::kBFloat16}, 1.0f, 0x1p-7},
        // Three mantissa bits forward, two backward; the errors of a sum's terms are independent.
        Bound{{kFp8}, 1.0f, 0x1p-3}}) {
    const Gradients gradients = gradients_of(c, scale);
    const double all = relative_error(gradients, fp32);
    double worst = 0;
    std::string worst_parameter;
    for (const auto& [parameter, values] : fp32) {
      const double error = relative_error(gradients, fp32, parameter);
      if (error > worst) worst = error, worst_parameter = parameter;
    }
    fmt::print("{:<22} {:.2e} = 2^{:.2f}, bound {:.2e}; worst {} {:.2e}\n", c.to_string(), all,
               std::log2(all), bound, worst_parameter, worst);
    EXPECT_LE(all, bound) << c.to_string();
  }
}

TEST(MixedPrecisionFp8, AModelWithoutFp8ProductsIsRefused) {
  EngineOptions options = options_for({kFp8}, {});
  options.precision.override_op(OpKind::kLinear, PrecisionMode::kFp32);
  EXPECT_NE(testing::message_of([&] {
              const Engine engine(build_gpt(model()), LocalWorld(1).communicator(0), options);
            }).find("Precision::mode = fp8: this model has no product in fp8"),
            std::string::npos);
}

// Clipping depends on the histories, so every layout counts the same; each stage counts its own operands.
TEST(MixedPrecisionFp8, ClippedOperandsAreCountedAlikeOnEveryLayout) {
  const auto clipped = [](const LayoutCase& layout) {
    std::vector<int> counts;
    run_local_ranks(layout.ranks, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(model()), comm, options_for({kFp8}, layout));
      const GptConfig config = model();
      for (int step = 0; step < 6; ++step) {
        const int more = engine
                             .step(testing::token_source(config.vocab, config.seq_len, step * kGlobalBatch),
                                   kGlobalBatch * config.seq_len, 1e-1)
                             .clipped;
        if (comm->rank() == 0) counts.push_back(more);
      }
    });
    return counts;
  };
  const std::vector<int> expected = clipped({});
  EXPECT_EQ(expected[0], 0);  // no history yet
  EXPECT_GT(*std::max_element(expected.begin(), expected.end()), 0);
  EXPECT_EQ(clipped({.ranks = 4, .zero = 3, .recompute = 1}), expected);
  EXPECT_EQ(clipped({.ranks = 2, .zero = 2}), expected);
}

// Histories are empty after a checkpoint of another mode, and do not affect the hash.
TEST(MixedPrecisionFp8, TakesUpAndLeavesCheckpointsOfBf16) {
  const testing::TemporaryFolder folder;
  Engine bf16(build_gpt(model()), LocalWorld(1).communicator(0), options_for({kBf16}, {}));
  train(bf16, 2);
  save_state(bf16, folder.path());
  Engine fp8(build_gpt(model()), LocalWorld(1).communicator(0), options_for({kFp8}, {}));
  load_state(fp8, folder.path(), StateParts::kAll);
  fp8.set_steps_done(2);
  EXPECT_EQ(fp8.state_hash(), bf16.state_hash());
  train(fp8, 3);
  EXPECT_FALSE(exists(folder.path() / kFp8MaximaFile));
  save_state(fp8, folder.path());
  EXPECT_TRUE(exists(folder.path() / kFp8MaximaFile));
  Engine back(build_gpt(model()), LocalWorld(1).communicator(0), options_for({kBf16}, {}));
  load_state(back, folder.path(), StateParts::kAll);
  EXPECT_EQ(back.context().to_host(back.parameters().master(1)),
            fp8.context().to_host(fp8.parameters().master(1)));
}

// A history that no step can produce is refused by name; infinity occurs in a step that overflowed.
TEST(MixedPrecisionFp8, DamagedMaximaAreRefused) {
  const testing::TemporaryFolder folder;
  Engine engine(build_gpt(model()), LocalWorld(1).communicator(0), options_for({kFp8}, {}));
  train(engine, 2);
  save_state(engine, folder.path());
  const auto load_with_last = [&](float value) {
    std::fstream file(folder.path() / kFp8MaximaFile, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-static_cast<std::streamoff>(sizeof(value)), std::ios::end);
    file.write(reinterpret_cast<const char*>(&value), sizeof(value));
    file.close();
    return testing::message_of([&] { load_state(engine, folder.path(), StateParts::kAll); });
  };
  for (const float value : {-1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_NE(load_with_last(value).find("which is no maximum of magnitudes: the file is damaged"),
              std::string::npos)
        << load_with_last(value);
  }
  EXPECT_EQ(load_with_last(std::numeric_limits<float>::infinity()), "");
  EXPECT_EQ(load_with_last(0.5f), "");
}

void add_in_fp32_only(const KernelContext& exec, const AddArgs& args) {
  if (args.out.dtype != DType::kFloat32)
    throw Error(ErrorCode::kUnsupported, fmt::format("add on cpu lacks {}", name(args.out.dtype)));
  cpu_backend().run(exec, args);
}

TEST(MixedPrecisionErrors, AGradientDtypeThatIsLackingIsRefusedBeforeStepOne) {
  Backend backend = cpu_backend();
  backend.ops.set<AddArgs>(add_in_fp32_only);
  EngineOptions options = options_for({kBf16, DType::kBFloat16}, {});
  options.backend = &backend;
  try {
    const Engine engine(build_gpt(model()), LocalWorld(1).communicator(0), options);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
    EXPECT_STREQ(
        e.what(),
        "Precision::grad_dtype: gradients cannot be kept in bf16 here; use \"fp32\": add on cpu lacks bf16");
  }
  options.backend = nullptr;
  options.reduction = Reduction::kFast;
  EXPECT_NE(testing::message_of([&] {
              const Engine engine(build_gpt(model()), LocalWorld(1).communicator(0), options);
            }).find("the fast reduction sums in fp32 only, not in bf16"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme

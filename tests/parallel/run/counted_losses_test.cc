// Losses that are divided by a count of the last block: [Note: counted losses] in runtime/block.h.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/squared_error.h"

namespace trireme {
namespace {

constexpr std::int64_t kBatch = 8, kWidth = 3;

class CountedLinear final : public Block {
 public:
  CountedLinear()
      : Block("linear"),
        weight_(declare({.name = "weight", .shape = {kWidth, kWidth}, .init = Initializer::normal(0.5f)})) {}
  Activations forward(Context& ctx, const Activations&, const Batch& batch) const override {
    return {ops::linear(ctx, batch.inputs, weight_)};
  }

 private:
  ParamRef weight_;
};

enum class Divided { kByTargets, kByCount };

/// A squared error weighted by sample. It is divided by the number of targets that the engine is told, or by
/// the sum of the weights, which is a count.
class WeightedError final : public Block {
 public:
  explicit WeightedError(Divided divided) : Block("loss"), divided_(divided) {}
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override {
    Tensor prediction = input.at(0);
    if (!batch.targets.defined()) return {prediction};
    const Tensor loss = ops::squared_error(ctx, std::move(prediction), batch.targets, batch.target_weights,
                                           batch.inv_num_targets);
    if (divided_ == Divided::kByTargets) return {loss};
    EXPECT_EQ(batch.target_weights.num_elems(), 1);
    return {loss, batch.target_weights};
  }
  bool counts_loss_terms() const override { return divided_ == Divided::kByCount; }

 private:
  Divided divided_;
};

BlockList build(Divided divided) {
  BlockList blocks;
  blocks.push_back(std::make_unique<CountedLinear>());
  blocks.push_back(std::make_unique<WeightedError>(divided));
  return blocks;
}

using Weights8 = std::array<float, kBatch>;

BatchSource source_of(const Weights8& weights, float target) {
  return [=](std::int64_t first, std::int64_t count) {
    HostBatch batch;
    batch.input_dtype = batch.target_dtype = DType::kFloat32;
    batch.input_shape = batch.target_shape = {count, kWidth};
    std::vector<float> inputs;
    for (std::int64_t i = first * kWidth; i < (first + count) * kWidth; ++i) {
      inputs.push_back(std::sin(static_cast<float>(i)));
      batch.number_targets.push_back(target * std::cos(static_cast<float>(3 * i)));
    }
    batch.inputs.resize(inputs.size() * sizeof(float));
    std::memcpy(batch.inputs.data(), inputs.data(), batch.inputs.size());
    batch.target_weights.assign(weights.begin() + first, weights.begin() + first + count);
    return batch;
  };
}

struct Outcome {
  std::vector<float> losses, norms, evaluated;
  std::vector<float> scales;
  std::uint64_t hash = 0;
  bool operator==(const Outcome&) const = default;
};

struct Counted {
  Divided divided = Divided::kByCount;
  std::int64_t num_targets = kBatch;
  PrecisionMode mode = PrecisionMode::kFp32;
  Layout layout = {};
  int ranks = 1;
  float target = 1.0f;
  float grad_clip = 0.25f;
};

SampleSpec sample_spec() {
  SampleSpec spec;
  spec.input = spec.target = {kWidth};
  spec.input_dtype = spec.target_dtype = DType::kFloat32;
  spec.target_weights = true;
  return spec;
}

Outcome train(const Counted& run, const Weights8& weights) {
  Outcome outcome;
  run_local_ranks(run.ranks, [&](const std::shared_ptr<Communicator>& comm) {
    EngineOptions options{.global_batch = kBatch,
                          .micro_batch = 1,
                          .optimizer = {.kind = OptimizerConfig::Kind::kSgd, .weight_decay = 0.0f},
                          .grad_clip = run.grad_clip,
                          .layout = run.layout,
                          .sample = sample_spec(),
                          .precision = Precision(run.mode)};
    if (run.mode == PrecisionMode::kFp16) {
      options.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic, .growth_interval = 2};
    }
    Engine engine(build(run.divided), comm, options);
    const BatchSource source = source_of(weights, run.target);
    Outcome own;
    for (int step = 0; step < 6; ++step) {
      const StepResult result = engine.step(source, run.num_targets, 0.5);
      own.losses.push_back(result.loss);
      own.norms.push_back(result.grad_norm);
      own.scales.push_back(result.loss_scale);
    }
    own.evaluated.push_back(engine.evaluate(source, kBatch, run.num_targets));
    own.evaluated.push_back(engine.evaluate(source, 5, run.num_targets));
    own.hash = engine.state_hash();
    if (comm->rank() == 0) outcome = own;
  });
  return outcome;
}

constexpr Weights8 kUneven = {0, 3, 1, 0, 0, 7, 4, 1};  // 16 in all

// Divided by 8 targets first, and by 16 / 8 later: powers of two, so the bits are those of one division
// by 16.
TEST(CountedLosses, AreThoseOfAKnownNumber) {
  const Outcome counted = train({}, kUneven);
  const Outcome known = train({.divided = Divided::kByTargets, .num_targets = 16}, kUneven);
  EXPECT_EQ(counted.losses, known.losses);
  EXPECT_EQ(counted.norms, known.norms);
  EXPECT_EQ(counted.hash, known.hash);
  EXPECT_EQ(counted.evaluated[0], known.evaluated[0]);
  const Outcome four = train({.divided = Divided::kByTargets, .num_targets = 4}, kUneven);
  EXPECT_NE(four.hash, known.hash);
}

TEST(CountedLosses, ACountOfZeroDividesByOne) {
  const Outcome none = train({}, {});
  for (const float loss : none.losses) EXPECT_EQ(loss, 0.0f);
  const Outcome no_targets = train({.num_targets = 0}, kUneven);
  for (const float loss : no_targets.losses) EXPECT_EQ(loss, 0.0f);
  for (const float norm : no_targets.norms) EXPECT_EQ(norm, 0.0f);
}

TEST(CountedLosses, HaveTheSameBitsOnEveryLayout) {
  constexpr Weights8 odd = {0, 3, 1, 0, 0, 6, 4, 1};
  for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kFp16}) {
    const Outcome one = train({.mode = mode}, odd);
    EXPECT_LT(one.losses.back(), one.losses.front());
    const std::pair<int, Layout> layouts[] = {{2, {}},
                                              {4, {.zero = ZeroStage::kOptimizer}},
                                              {4, {.zero = ZeroStage::kGradients}},
                                              {2, {.zero = ZeroStage::kParameters, .recompute_every = 1}},
                                              {2, {.pipeline = 2}},
                                              {4, {.pipeline = 2, .zero = ZeroStage::kParameters}}};
    for (const auto& [ranks, layout] : layouts) {
      EXPECT_TRUE(train({.mode = mode, .layout = layout, .ranks = ranks}, odd) == one)
          << ranks << " ranks: " << to_text(layout);
    }
  }
}

// The scale shrinks until the gradients fit, although they are divided by the count later.
TEST(CountedLosses, TheDynamicScaleWorks) {
  const Outcome steps = train({.mode = PrecisionMode::kFp16, .target = 100.0f}, kUneven);
  EXPECT_LT(steps.scales.back(), 65536.0f);
  EXPECT_TRUE(std::isfinite(steps.norms.back()));
  const Outcome wide = train({.target = 100.0f}, kUneven);
  EXPECT_NEAR(steps.losses.front(), wide.losses.front(), 1e-2f * wide.losses.front());
}

TEST(CountedLosses, ALastBlockThatReturnsOneNumberIsAnError) {
  class Silent final : public Block {
   public:
    Silent() : Block("loss") {}
    Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override {
      return {ops::squared_error(ctx, input.at(0), batch.targets, {}, batch.inv_num_targets)};
    }
    bool counts_loss_terms() const override { return true; }
  };
  run_local_ranks(1, [](const std::shared_ptr<Communicator>& comm) {
    BlockList blocks;
    blocks.push_back(std::make_unique<CountedLinear>());
    blocks.push_back(std::make_unique<Silent>());
    Engine engine(std::move(blocks), comm, {.global_batch = kBatch, .micro_batch = 1});
    try {
      engine.step(source_of(kUneven, 1.0f), kBatch, 0.1);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("two scalars"), std::string::npos) << error.what();
    }
  });
}

}  // namespace
}  // namespace trireme

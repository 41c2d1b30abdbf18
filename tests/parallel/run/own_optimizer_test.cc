// An optimizer of the caller's own has what the built-in ones have: equal bits on every layout and precision,
// predicted memory, checkpoints, averages, factors by name, and skipped steps.
#include <cmath>
#include <mutex>

#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "tests/support/optimizer_jobs.h"
#include "tests/support/temporary_folder.h"

namespace trireme::testing {
namespace {

constexpr float kAmsDecay = 0.25f, kAmsBeta1 = 0.9f, kAmsBeta2 = 0.99f, kAmsEpsilon = 1e-8f;
constexpr double kAmsRate = 1e-2;

// AMSGrad (Reddi et al. 2018) without bias correction, with decoupled decay:
//   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  u = max(u, v);  p -= lr (m / (sqrt(u) + eps) + decay p)
// Keeps three numbers per element. Takes temporary memory for a whole segment.
class AmsGrad final : public Optimizer {
 public:
  std::vector<std::string> state_names() const override { return {"mean", "square", "largest_square"}; }

  void update(const Context& ctx, const UpdateSegment& s, const UpdateScalars& scalars) const override {
    const Tensor gradient = ctx.empty(s.param.shape, DType::kFloat32, MemoryCategory::kOptimizer);
    if (s.grad.dtype == DType::kFloat32) {
      ctx.backend->copy(ctx.exec, gradient, s.grad);
    } else {
      ctx.run(CastArgs{.x = s.grad, .y = gradient});
    }
    if (traits(ctx.allocator->device().type).computes)
      move(static_cast<const float*>(gradient.data()), s, scalars);
    if (s.working.defined()) ctx.run(CastArgs{.x = s.param, .y = s.working, .center = s.working_center});
  }

 private:
  static void move(const float* gradient, const UpdateSegment& s, const UpdateScalars& scalars) {
    if (scalars.skip.defined() && *scalars.skip.const_view().as<std::int32_t>() != 0) return;
    const float lr = *scalars.lr.const_view().as<float>(), clip = *scalars.clip.const_view().as<float>();
    float *p = s.param.as<float>(), *m = s.state[0].as<float>(), *v = s.state[1].as<float>(),
          *u = s.state[2].as<float>();
    for (std::int64_t i = 0; i < s.param.num_elems(); ++i) {
      const float g = clip * gradient[i];
      m[i] = kAmsBeta1 * m[i] + (1 - kAmsBeta1) * g;
      v[i] = kAmsBeta2 * v[i] + (1 - kAmsBeta2) * g * g;
      u[i] = std::max(u[i], v[i]);
      p[i] -= lr * (m[i] / (std::sqrt(u[i]) + kAmsEpsilon) + s.decay * kAmsDecay * p[i]);
    }
  }
};

std::unique_ptr<Optimizer> make_amsgrad() {
  return std::make_unique<AmsGrad>();
}

TEST(OwnOptimizer, TenStepsAreThoseOfItsDefinition) {
  const PipelineLayout layout;
  EngineOptions options = OptimizerJob{.own_optimizer = make_amsgrad}.options(layout);
  options.grad_clip = 0.0f;
  Engine engine(build_gpt(layout.model()), LocalWorld(1).communicator(0), options);
  for (int i = 0; i < 10; ++i) {
    const Values m = states_of(engine, 0), v = states_of(engine, 1), u = states_of(engine, 2);
    const ObservedStep step = observe_step(engine, layout, kAmsRate);
    for (const auto& [name, before] : step.before) {
      const bool matrix = !name.ends_with("bias") && name.find("norm") == std::string::npos;
      for (std::size_t e = 0; e < before.size(); ++e) {
        const double g = step.gradients.at(name)[e];
        const double mean = kAmsBeta1 * double{m.at(name)[e]} + (1 - double{kAmsBeta1}) * g;
        const double square = kAmsBeta2 * double{v.at(name)[e]} + (1 - double{kAmsBeta2}) * g * g;
        const double largest = std::max(double{u.at(name)[e]}, square);
        const double decay = (matrix ? double{kAmsDecay} : 0.0) * double{before[e]};
        const double expected =
            double{before[e]} - kAmsRate * (mean / (std::sqrt(largest) + double{kAmsEpsilon}) + decay);
        ASSERT_NEAR(step.after.at(name)[e], expected, 1e-6 * (1 + std::abs(double{before[e]}))) << name;
      }
    }
  }
}

// Memory and traffic of every rank are compared with their prediction, too.
TEST(OwnOptimizer, EveryLayoutGivesTheSameState) {
  const OptimizerJob job{.own_optimizer = make_amsgrad, .ema = 0.9f};
  expect_equal_states(job, layouts_of_whole_states());
  expect_equal_states(job, layouts_of_shards());
}

TEST(OwnOptimizer, EveryPrecisionGivesTheSameStateOnOtherLayouts) {
  for (const PrecisionMode mode : {PrecisionMode::kTf32, PrecisionMode::kFp16, PrecisionMode::kBf16}) {
    OptimizerJob job{.own_optimizer = make_amsgrad, .precision = Precision(mode)};
    if (mode != PrecisionMode::kTf32) job.precision.grad_dtype = job.precision.compute_dtype();
    if (mode == PrecisionMode::kFp16) job.loss_scale.kind = LossScaleConfig::Kind::kDynamic;
    expect_equal_states(job, {{.data = 2, .zero = 1}, {.stages = 2, .data = 2, .zero = 3}});
  }
}

// A factory that makes a built-in optimizer changes nothing, also for one that updates whole matrices.
TEST(OwnOptimizer, AFactoryOfABuiltInOneGivesItsBits) {
  using enum OptimizerConfig::Kind;
  for (const OptimizerConfig& config :
       {OptimizerConfig{.kind = kAdamW, .weight_decay = 0.1f},
        OptimizerConfig{.kind = kMuon, .weight_decay = 0.1f, .momentum = 0.9f}}) {
    const PipelineLayout layout{.data = 2};
    const PipelineOutcome built_in = train_job({.optimizer = config}, layout, 2);
    EXPECT_TRUE(train_job({.own_optimizer = [config] { return make_optimizer(config); }}, layout, 2) ==
                built_in);
  }
}

// Trains up to 4 steps: from the start, saving after 2; or from what was saved.
std::uint64_t hash_after_four_steps(const PipelineLayout& layout, const std::filesystem::path& save,
                                    const std::filesystem::path& load) {
  std::uint64_t hash = 0;
  std::mutex mutex;
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(layout.model()), comm,
                  OptimizerJob{.own_optimizer = make_amsgrad}.options(layout));
    if (!load.empty()) {
      load_state(engine, load, StateParts::kAll);
      engine.set_steps_done(2);
    } else {
      train(engine, layout, 2);
      save_state(engine, save);
    }
    train(engine, layout, 4);
    const std::uint64_t mine = engine.state_hash();
    const std::lock_guard lock(mutex);
    hash = mine;
  });
  return hash;
}

TEST(OwnOptimizer, ACheckpointContinuesOnAnotherLayout) {
  const TemporaryFolder folder;
  const std::uint64_t whole = hash_after_four_steps({}, folder.path(), {});
  for (const PipelineLayout& layout :
       {PipelineLayout{.data = 2, .zero = 1}, PipelineLayout{.stages = 2, .data = 2, .zero = 3}}) {
    EXPECT_EQ(hash_after_four_steps(layout, {}, folder.path()), whole) << layout.to_string();
  }
}

// The checkpoint of another optimizer has other state.
TEST(OwnOptimizer, ACheckpointOfAnotherOneIsRefused) {
  const TemporaryFolder folder;
  hash_after_four_steps({}, folder.path(), {});
  const PipelineLayout layout;
  Engine engine(build_gpt(layout.model()), LocalWorld(1).communicator(0), layout.options());
  try {
    load_state(engine, folder.path(), StateParts::kAll);
    ADD_FAILURE() << "AdamW took the state of AMSGrad";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("exp_avg"), std::string::npos) << error.what();
  }
}

// A loss scale beyond fp16: the first step overflows, and only the scale changes.
TEST(OwnOptimizer, ASkippedStepChangesNothing) {
  const PipelineLayout layout{.precision = Precision(PrecisionMode::kFp16)};
  const OptimizerJob job{
      .own_optimizer = make_amsgrad,
      .precision = layout.precision,
      .loss_scale = {
          .kind = LossScaleConfig::Kind::kDynamic, .initial = 0x1p100f, .backoff_factor = 0x1p-90f}};
  Engine engine(build_gpt(layout.model()), LocalWorld(1).communicator(0), job.options(layout));
  const std::uint64_t before = engine.state_hash();
  EXPECT_TRUE(train(engine, layout, 1).skipped);
  EXPECT_EQ(engine.state_hash(), before);
  EXPECT_FALSE(train(engine, layout, 2).skipped);
  EXPECT_NE(engine.state_hash(), before);
}

TEST(OwnOptimizer, AnUnusableOneIsRefusedWithTheReason) {
  struct TwoSums final : Optimizer {
    std::vector<std::string> state_names() const override { return {"sum", "sum"}; }
    void update(const Context&, const UpdateSegment&, const UpdateScalars&) const override {}
  };
  const auto refusal = [](const OptimizerFactory& factory, const PipelineLayout& layout) {
    try {
      Engine(build_gpt(layout.model()), LocalWorld(1).communicator(0),
             OptimizerJob{.own_optimizer = factory}.options(layout));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refusal([] { return nullptr; }, {}).find("returned no optimizer"), std::string::npos);
  EXPECT_NE(refusal([] { return std::make_unique<TwoSums>(); }, {}).find("[sum, sum] must be distinct"),
            std::string::npos);
  const OptimizerFactory muon = [] { return make_optimizer({.kind = OptimizerConfig::Kind::kMuon}); };
  EXPECT_NE(refusal(muon, {.zero = 1}).find("updates whole matrices"), std::string::npos);
}

}  // namespace
}  // namespace trireme::testing

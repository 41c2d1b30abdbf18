// Muon: ten steps against torch.optim.Muon's definition in double precision, memory, and the same state from
// every layout with unsharded state.
#include "runtime/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "parallel/foresee/predict.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "tests/support/optimizer_jobs.h"
#include "tests/support/temporary_folder.h"

namespace trireme::testing {
namespace {

constexpr double kLr = 1e-2, kMomentum = 0.95f, kDecay = 0.25f;
const OptimizerConfig kMuon{.kind = OptimizerConfig::Kind::kMuon,
                            .weight_decay = 0.25f,
                            .beta1 = 0.9f,
                            .beta2 = 0.95f,
                            .momentum = 0.95f,
                            .nesterov = true};

// Row-major.
struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;

  double& at(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * cols + c)]; }
  double at(std::int64_t r, std::int64_t c) const { return values[static_cast<std::size_t>(r * cols + c)]; }
  Matrix transposed() const {
    Matrix result{cols, rows, std::vector<double>(values.size())};
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) result.at(c, r) = at(r, c);
    }
    return result;
  }
};

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result{a.rows, b.cols, std::vector<double>(static_cast<std::size_t>(a.rows * b.cols))};
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t k = 0; k < a.cols; ++k) {
      for (std::int64_t c = 0; c < b.cols; ++c) result.at(r, c) += a.at(r, k) * b.at(k, c);
    }
  }
  return result;
}

Matrix combined(double x, const Matrix& a, double y, const Matrix& b) {
  Matrix result = a;
  for (std::size_t i = 0; i < a.values.size(); ++i) result.values[i] = x * a.values[i] + y * b.values[i];
  return result;
}

// torch.optim.Muon's _zeropower_via_newtonschulz, in double.
Matrix orthogonal(Matrix x) {
  const bool tall = x.rows > x.cols;
  if (tall) x = x.transposed();
  double squares = 0;
  for (const double value : x.values) squares += value * value;
  for (double& value : x.values) value /= std::max(std::sqrt(squares), 1e-7);
  for (int round = 0; round < 5; ++round) {
    const Matrix gram = product(x, x.transposed());
    const Matrix update = combined(-4.7750, gram, 2.0315, product(gram, gram));
    x = combined(3.4445, x, 1.0, product(update, x));
  }
  return tall ? x.transposed() : x;
}

// The rule in double precision, with its own state.
class Reference {
 public:
  Reference(const Engine& engine, MuonScale scale, bool nesterov) : scale_(scale), nesterov_(nesterov) {
    for (const ParamGroup& group : engine.layout().groups) {
      for (const ParamSlot& slot : group.slots) shapes_[slot.name] = group.matrices ? slot.shape : Shape{};
    }
    for (const auto& [name, values] : masters_of(engine)) params_[name].assign(values.begin(), values.end());
  }

  const std::map<std::string, std::vector<double>>& params() const { return params_; }
  std::size_t num_matrices() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(shapes_, [](const auto& entry) { return entry.second.rank() == 2; }));
  }

  void step(const Values& gradients) {
    ++steps_;
    for (auto& [name, p] : params_) {
      const std::vector<float>& g = gradients.at(name);
      if (shapes_.at(name).rank() == 2) {
        muon(shapes_.at(name), p, g, first_[name]);
      } else {
        const bool decays = !name.ends_with("bias") && name.find("norm") == std::string::npos;
        adamw(decays ? kDecay : 0.0, p, g, first_[name], second_[name]);
      }
    }
  }

 private:
  void muon(const Shape& shape, std::vector<double>& p, const std::vector<float>& g,
            std::vector<double>& buffer) const {
    buffer.resize(p.size());
    Matrix update{shape[0], shape[1], std::vector<double>(p.size())};
    for (std::size_t i = 0; i < p.size(); ++i) {
      buffer[i] += (1 - kMomentum) * (g[i] - buffer[i]);
      update.values[i] = nesterov_ ? g[i] + kMomentum * (buffer[i] - g[i]) : buffer[i];
    }
    update = orthogonal(std::move(update));
    const auto rows = static_cast<double>(shape[0]), cols = static_cast<double>(shape[1]);
    const double scale = scale_ == MuonScale::kOriginal ? std::sqrt(std::max(1.0, rows / cols))
                                                        : 0.2 * std::sqrt(std::max(rows, cols));
    for (std::size_t i = 0; i < p.size(); ++i) {
      p[i] = p[i] * (1 - kLr * kDecay) - kLr * scale * update.values[i];
    }
  }

  void adamw(double decay, std::vector<double>& p, const std::vector<float>& g, std::vector<double>& first,
             std::vector<double>& second) const {
    constexpr double kBeta1 = 0.9f, kBeta2 = 0.95f, kEpsilon = 1e-8f;
    first.resize(p.size());
    second.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      first[i] = kBeta1 * first[i] + (1 - kBeta1) * g[i];
      second[i] = kBeta2 * second[i] + (1 - kBeta2) * g[i] * g[i];
      const double root = std::sqrt(second[i] / (1 - std::pow(kBeta2, steps_)));
      p[i] = p[i] * (1 - kLr * decay) - kLr * first[i] / (1 - std::pow(kBeta1, steps_)) / (root + kEpsilon);
    }
  }

  const MuonScale scale_;
  const bool nesterov_;
  int steps_ = 0;
  std::map<std::string, Shape> shapes_;  // rank 2: of a matrix
  std::map<std::string, std::vector<double>> params_, first_, second_;
};

double norm_of_difference(const std::vector<float>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// Uses the engine's gradients; the reference keeps its own parameters and state over all ten steps.
TEST(Muon, TenStepsAreThoseOfPyTorchsDefinition) {
  for (const MuonScale scale : {MuonScale::kOriginal, MuonScale::kMatchRmsAdamW}) {
    for (const bool nesterov : {true, false}) {
      const PipelineLayout layout;
      OptimizerConfig muon = kMuon;
      muon.muon_scale = scale;
      muon.nesterov = nesterov;
      EngineOptions options = OptimizerJob{.optimizer = muon}.options(layout);
      options.grad_clip = 0.0f;
      Engine engine(build_gpt(layout.model()), LocalWorld(1).communicator(0), options);
      Reference reference(engine, scale, nesterov);
      EXPECT_EQ(reference.num_matrices(), 4u * static_cast<std::size_t>(layout.gpt.layers));
      const Values start = masters_of(engine);
      Values end;
      for (int i = 0; i < 10; ++i) {
        const ObservedStep step = observe_step(engine, layout, kLr);
        reference.step(step.gradients);
        end = step.after;
      }
      for (const auto& [name, values] : end) {
        const std::vector<float>& before = start.at(name);
        const double moved = norm_of_difference(values, {before.begin(), before.end()});
        EXPECT_LT(norm_of_difference(values, reference.params().at(name)), 1e-3 * moved) << name;
      }
    }
  }
}

// The singular values of an update are close to 1, and so are the squared norms of a wide matrix's rows.
TEST(Muon, UpdatesAreNearlyOrthogonal) {
  const PipelineLayout layout;
  OptimizerConfig muon = kMuon;
  muon.weight_decay = 0.0f;
  EngineOptions options = OptimizerJob{.optimizer = muon}.options(layout);
  Engine engine(build_gpt(layout.model()), LocalWorld(1).communicator(0), options);
  const ObservedStep step = observe_step(engine, layout, kLr);
  const std::string name = "blocks.0.mlp.down.weight";  // [hidden, 4 hidden]
  const auto hidden = static_cast<std::size_t>(layout.gpt.hidden);
  ASSERT_EQ(step.before.at(name).size(), 4 * hidden * hidden);
  for (std::size_t row = 0; row < hidden; ++row) {
    double squares = 0;
    for (std::size_t i = row * 4 * hidden; i < (row + 1) * 4 * hidden; ++i) {
      squares += std::pow((step.after.at(name)[i] - step.before.at(name)[i]) / kLr, 2);
    }
    EXPECT_GT(squares, 0.4) << row;
    EXPECT_LT(squares, 1.5) << row;
  }
}

// One moment of a matrix, two of other parameters.
TEST(Muon, KeepsOneMomentOfMatrices) {
  const PipelineLayout layout;
  const auto blocks = std::make_shared<const BlockList>(build_gpt(layout.model()));
  Engine muon(blocks, LocalWorld(1).communicator(0), OptimizerJob{.optimizer = kMuon}.options(layout));
  Engine adamw(blocks, LocalWorld(1).communicator(0), layout.options());
  std::int64_t matrices = 0;
  for (const ParamGroup& group : muon.layout().groups) matrices += group.matrices ? group.num_elems : 0;
  EXPECT_GT(matrices, muon.layout().num_parameters / 2);
  const auto state_of = [](const Engine& engine) {
    return engine.context().allocator->stats().current[MemoryCategory::kOptimizer];
  };
  EXPECT_EQ(state_of(adamw) - state_of(muon), 4 * matrices);
}

TEST(Muon, EveryLayoutOfWholeStatesGivesTheSameState) {
  expect_equal_states({.optimizer = kMuon}, layouts_of_whole_states());
}

TEST(Muon, EveryPrecisionGivesTheSameStateOnOtherLayouts) {
  for (const PrecisionMode mode : {PrecisionMode::kTf32, PrecisionMode::kFp16, PrecisionMode::kBf16}) {
    OptimizerJob job{.optimizer = kMuon, .ema = 0.75f, .precision = Precision(mode)};
    if (mode == PrecisionMode::kFp16) job.loss_scale.kind = LossScaleConfig::Kind::kDynamic;
    expect_equal_states(job, {{.data = 2}, {.stages = 2, .data = 2}});
  }
}

TEST(Muon, ASkippedStepChangesNothing) {
  const PipelineLayout layout{.precision = Precision(PrecisionMode::kFp16)};
  const OptimizerJob job{
      .optimizer = kMuon,
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

TEST(Muon, ResumesOnAnotherLayout) {
  const TemporaryFolder folder;
  const OptimizerJob job{.optimizer = kMuon};
  const PipelineOutcome expected = train_job(job, {}, 4);
  const PipelineLayout first{.stages = 2, .data = 2}, second{.data = 2};
  run_local_ranks(first.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(first.model()), comm, job.options(first));
    train(engine, first, 2);
    save_state(engine, folder.path());
  });
  run_local_ranks(second.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(second.model()), comm, job.options(second));
    load_state(engine, folder.path(), StateParts::kAll);
    engine.set_steps_done(2);
    const PipelineOutcome mine = outcome_of(engine, second, train(engine, second, 4));
    EXPECT_TRUE(mine == expected);
  });
}

TEST(Muon, RefusesWhatItCannotUpdate) {
  const PipelineLayout layout;
  const auto engine_of = [&](const BlockList& blocks, const EngineOptions& options) {
    return make_layout(blocks, 0, {}, {.frozen = options.rules.frozen, .separates_matrices = true});
  };
  EngineOptions options = OptimizerJob{.optimizer = kMuon}.options(layout);
  options.rules = {.frozen = {"*weight"}};
  EXPECT_THROW(engine_of(build_gpt(layout.model()), options), Error);
  GptConfig shallow = layout.model();
  shallow.layers = 1;
  EXPECT_NO_THROW(engine_of(build_gpt(shallow), {}));
  GptConfig chunks = layout.model();
  chunks.tensor_chunks = 2;
  EXPECT_THROW(engine_of(build_gpt(chunks), {}), Error);
  for (const int zero : {1, 2, 3}) {
    EXPECT_THROW(Engine(build_gpt(layout.model()), LocalWorld(1).communicator(0),
                        OptimizerJob{.optimizer = kMuon}.options(PipelineLayout{.zero = zero})),
                 Error);
  }
  OptimizerConfig wrong = kMuon;
  wrong.momentum = 1.0f;
  EXPECT_THROW(make_optimizer(wrong), Error);
}

}  // namespace
}  // namespace trireme::testing

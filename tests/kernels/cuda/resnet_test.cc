// A residual network on the cuda and cpu backends: losses, every gradient, running statistics.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "parallel/run/step_graph.h"
#include "tests/support/missing_entries.h"
#include "tests/support/tiny_resnet.h"

namespace trireme {
namespace {

constexpr std::int64_t kGlobalBatch = 4;

struct Outcome {
  std::vector<float> losses, norms;
  float eval_loss = 0;                                  // with the running statistics
  std::map<std::string, std::vector<float>> gradients;  // of the first step
  std::vector<std::int64_t> peaks;
  std::uint64_t state_hash = 0;
};

struct Job {
  ResNetConfig::Stem stem = ResNetConfig::Stem::kCifar;
  PrecisionMode mode = PrecisionMode::kFp32;
  int recompute_every = 0;
  bool cuda_graph = false;  // gradients are not observed then
};

Outcome train(DeviceType type, const Job& job) {
  ResNetConfig config = testing::tiny_resnet_config();
  config.stem = job.stem;
  config.label_smoothing = 0.1f;
  Engine engine(build_resnet(config), LocalWorld(1).communicator(0),
                {.device = {type, 0},
                 .global_batch = kGlobalBatch,
                 .micro_batch = 2,
                 .seed = 5,
                 .optimizer = {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0.9f, .nesterov = true},
                 .layout = {.recompute_every = job.recompute_every},
                 .cuda_graph = job.cuda_graph,
                 .precision = Precision(job.mode)});
  Outcome outcome;
  if (!job.cuda_graph) {
    engine.observe_gradients([&](const std::string& name, const Tensor& gradient) {
      if (engine.steps_done() == 0) outcome.gradients[name] = engine.context().to_host(gradient);
    });
  }
  const auto source = [&](std::int64_t first) {
    return testing::image_source(testing::kTinyPixels, config.classes, first);
  };
  for (int step = 0; step < 4; ++step) {
    const StepResult result = engine.step(source(step * kGlobalBatch), kGlobalBatch, 0.05);
    // Libraries make their handles in the first step, and the second step fills the graph's pool.
    if (job.cuda_graph) {
      EXPECT_EQ(engine.step_graph()->replayed(), step >= 2) << "step " << step;
    }
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.grad_norm);
    outcome.peaks.push_back(result.memory.at_peak.total());
  }
  outcome.eval_loss = engine.evaluate(source(100), kGlobalBatch, kGlobalBatch);
  outcome.state_hash = engine.state_hash();
  return outcome;
}

void expect_near(const std::vector<float>& actual, const std::vector<float>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_LT(std::abs(actual[i] - expected[i]), tolerance * std::abs(expected[i])) << "step " << i;
  }
}

double norm(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  return std::sqrt(squares);
}

TEST(CudaResNet, NoEntryOfTheTableIsMissing) {
  EXPECT_EQ(missing_entries(cuda_backend()), std::set<std::string>{"arithmetic"});  // cards are examined
}

TEST(CudaResNet, LearnsAsOnTheCpu) {
  for (const ResNetConfig::Stem stem : {ResNetConfig::Stem::kCifar, ResNetConfig::Stem::kImageNet}) {
    const Job job{.stem = stem};
    const Outcome cpu = train(DeviceType::kCpu, job), cuda = train(DeviceType::kCuda, job);
    expect_near(cuda.losses, cpu.losses, 1e-4);
    expect_near(cuda.norms, cpu.norms, 1e-3);
    expect_near({cuda.eval_loss}, {cpu.eval_loss}, 1e-4);
    ASSERT_EQ(cuda.gradients.size(), cpu.gradients.size());
    ASSERT_FALSE(cpu.gradients.empty());
    for (const auto& [name, expected] : cpu.gradients) {
      std::vector<float> error = cuda.gradients.at(name);
      ASSERT_EQ(error.size(), expected.size()) << name;
      for (std::size_t i = 0; i < error.size(); ++i) error[i] -= expected[i];
      EXPECT_LT(norm(error), 1e-4 * norm(expected)) << name;
    }
  }
}

TEST(CudaResNet, SixteenBitsAsOnTheCpu) {
  for (const PrecisionMode mode : {PrecisionMode::kFp16, PrecisionMode::kBf16}) {
    const Job job{.mode = mode};
    const Outcome cpu = train(DeviceType::kCpu, job), cuda = train(DeviceType::kCuda, job);
    // After one step of training. Later steps differ by the effect of 16-bit rounding.
    EXPECT_LT(std::abs(cuda.losses[0] - cpu.losses[0]), 0.01f * cpu.losses[0]);
    EXPECT_LT(std::abs(cuda.losses[2] - cpu.losses[2]), 0.05f * cpu.losses[2]);
  }
}

TEST(CudaResNet, TakesTheSameMemory) {
  EXPECT_EQ(train(DeviceType::kCuda, {}).peaks, train(DeviceType::kCpu, {}).peaks);
}

TEST(CudaResNet, SameBitsTwiceRecordedAndWithRecompute) {
  const Outcome once = train(DeviceType::kCuda, {});
  for (const Job& job : {Job{}, Job{.recompute_every = 1}, Job{.cuda_graph = true}}) {
    const Outcome again = train(DeviceType::kCuda, job);
    EXPECT_EQ(once.losses, again.losses);
    EXPECT_EQ(once.eval_loss, again.eval_loss);
    EXPECT_EQ(once.state_hash, again.state_hash);
  }
}

}  // namespace
}  // namespace trireme

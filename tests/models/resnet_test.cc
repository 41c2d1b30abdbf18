#include "models/resnet.h"

#include <gtest/gtest.h>

#include <set>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "tests/support/tiny_resnet.h"

namespace trireme {
namespace {

std::int64_t parameters_of(const char* name) {
  return make_layout(build_resnet(*find_resnet_config(name))).num_parameters;
}

// torchvision's numbers, and He et al. 2016 (0.27 and 0.85 M) with convolutional shortcuts.
TEST(ResNet, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameters_of("resnet18"), 11689512);
  EXPECT_EQ(parameters_of("resnet34"), 21797672);
  EXPECT_EQ(parameters_of("resnet50"), 25557032);
  EXPECT_EQ(parameters_of("resnet101"), 44549160);
  EXPECT_EQ(parameters_of("resnet20"), 269722 + 16 * 32 + 32 * 64 + 2 * (32 + 64));
  EXPECT_EQ(parameters_of("resnet56"), 853018 + 16 * 32 + 32 * 64 + 2 * (32 + 64));
  EXPECT_FALSE(find_resnet_config("resnet19"));
}

TEST(ResNet, EveryUnitIsABlockAndNamesAreTorchvisions) {
  const BlockList blocks = build_resnet(*find_resnet_config("resnet50"));
  ASSERT_EQ(blocks.size(), 18u);
  EXPECT_EQ(blocks[1]->name(), "layer1.0");
  std::set<std::string> names;
  for (const auto& block : blocks) {
    for (const ParameterSpec& spec : block->parameters()) names.insert(block->full_name(spec));
    for (const StatisticSpec& spec : block->statistics()) names.insert(block->full_name(spec));
  }
  EXPECT_EQ(names.size(), 161u + 2 * 53u);
  for (const char* name : {"conv1.weight", "bn1.weight", "bn1.running_mean", "layer1.0.downsample.0.weight",
                           "layer1.0.downsample.1.running_var", "layer4.2.conv3.weight", "layer3.5.bn2.bias",
                           "fc.weight", "fc.bias"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

// The rule: only matrices and kernels decay.
TEST(ResNet, DecaySparesNormsAndBiases) {
  for (const auto& block : build_resnet(*find_resnet_config("resnet18"))) {
    for (const ParameterSpec& spec : block->parameters()) {
      EXPECT_EQ(spec.decay, spec.shape.rank() > 1) << block->full_name(spec);
    }
  }
}

TEST(ResNet, RefusesWhatCannotBeBuilt) {
  EXPECT_THROW(build_resnet({.units = {}}), Error);
  EXPECT_THROW(build_resnet({.units = {2, 0}}), Error);
  EXPECT_THROW(build_resnet({.classes = 0}), Error);
  EXPECT_THROW(build_resnet({.label_smoothing = 1.0f}), Error);
}

TEST(ResNet, Learns) {
  ResNetConfig config = testing::tiny_resnet_config();
  config.label_smoothing = 0.05f;
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_resnet(config), comm,
                  {.global_batch = 20,
                   .micro_batch = 10,
                   .optimizer = {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0.9f, .nesterov = true}});
    const BatchSource source = testing::image_source(testing::kTinyPixels, config.classes, 0);
    const float first = engine.step(source, 20, 0.1).loss;
    for (int step = 0; step < 25; ++step) engine.step(source, 20, 0.1);
    EXPECT_LT(engine.step(source, 20, 0.1).loss, 0.5f * first);
    EXPECT_LT(engine.evaluate(source, 20, 20), 0.8f * first);  // with the running statistics
  });
}

}  // namespace
}  // namespace trireme

#include "models/yolox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "tests/support/tiny_yolox.h"

namespace trireme {
namespace {

std::int64_t parameters_of(const YoloxConfig& config) {
  return make_layout(build_yolox(config)).num_parameters;
}

/// Parameters of a convolution with norm.
std::int64_t unit(std::int64_t channels, std::int64_t outputs, std::int64_t kernel) {
  return channels * outputs * kernel * kernel + 2 * outputs;
}

std::int64_t csp(std::int64_t channels, std::int64_t outputs, std::int64_t layers) {
  const std::int64_t half = outputs / 2;
  return 2 * unit(channels, half, 1) + unit(2 * half, outputs, 1) +
         layers * (unit(half, half, 1) + unit(half, half, 3));
}

/// The sum over the layers of the paper, without separable convolutions.
std::int64_t count(const YoloxConfig& c) {
  const std::int64_t w = c.width, n = c.layers;
  const std::int64_t backbone = unit(12, w, 3) + unit(w, 2 * w, 3) + csp(2 * w, 2 * w, n) +
                                unit(2 * w, 4 * w, 3) + csp(4 * w, 4 * w, 3 * n) + unit(4 * w, 8 * w, 3) +
                                csp(8 * w, 8 * w, 3 * n) + unit(8 * w, 16 * w, 3) + unit(16 * w, 8 * w, 1) +
                                unit(32 * w, 16 * w, 1) + csp(16 * w, 16 * w, n);
  const std::int64_t neck = unit(16 * w, 8 * w, 1) + csp(16 * w, 8 * w, n) + unit(8 * w, 4 * w, 1) +
                            csp(8 * w, 4 * w, n) + unit(4 * w, 4 * w, 3) + csp(8 * w, 8 * w, n) +
                            unit(8 * w, 8 * w, 3) + csp(16 * w, 16 * w, n);
  std::int64_t head = 0;
  for (const std::int64_t channels : {4 * w, 8 * w, 16 * w}) {
    head += unit(channels, 4 * w, 1) + 4 * unit(4 * w, 4 * w, 3) + (4 * w + 1) * (5 + c.classes);
  }
  return backbone + neck + head;
}

// Tables of the paper and of the authors' program: 0.91, 5.06, 9.0, 25.3, 54.2 and 99.1 million.
TEST(Yolox, HasThePublishedNumberOfParameters) {
  const std::pair<const char*, double> published[] = {{"nano", 0.91}, {"tiny", 5.06}, {"s", 9.0},
                                                      {"m", 25.3},    {"l", 54.2},    {"x", 99.1}};
  for (const auto& [size, millions] : published) {
    const YoloxConfig config = yolox_config_for_size(size);
    const double digit = millions < 9 ? 0.01 : 0.1;
    const auto parameters = static_cast<double>(parameters_of(config));
    EXPECT_EQ(std::llround(parameters / 1e6 / digit), std::llround(millions / digit))
        << size << " " << parameters;
    EXPECT_TRUE(config.separable || parameters_of(config) == count(config)) << size;
  }
  EXPECT_EQ(parameters_of(yolox_config_for_size("nano")), 912159);
  EXPECT_EQ(parameters_of(yolox_config_for_size("tiny")), 5055855);
  EXPECT_EQ(parameters_of(yolox_config_for_size("s")), 8968255);
  EXPECT_EQ(parameters_of(yolox_config_for_size("m")), 25326495);
  EXPECT_EQ(parameters_of(yolox_config_for_size("l")), 54208895);
  EXPECT_EQ(parameters_of(yolox_config_for_size("x")), 99071455);
  EXPECT_EQ(parameters_of({.layers = 1, .width = 32, .classes = 20}), 8968255 - 60 * 3 * 129);
}

TEST(Yolox, EveryStageIsABlockAndNamesAreTheAuthors) {
  std::vector<std::string> blocks;
  std::set<std::string> names;
  for (const auto& block : build_yolox(yolox_config_for_size("s"))) {
    blocks.push_back(block->name());
    for (const ParameterSpec& spec : block->parameters()) names.insert(block->full_name(spec));
    for (const StatisticSpec& spec : block->statistics()) {
      names.insert(block->full_name(spec));
      EXPECT_EQ(spec.momentum, 0.03f) << spec.name;
    }
  }
  const std::vector<std::string> expected = {"stem",  "dark2", "dark3", "dark4",  "dark5",  "C3_p4",
                                             "C3_p3", "C3_n3", "C3_n4", "head.2", "head.1", "head.0"};
  EXPECT_EQ(blocks, expected);
  for (const char* name :
       {"backbone.backbone.stem.conv.conv.weight", "backbone.backbone.dark2.0.bn.running_mean",
        "backbone.backbone.dark3.1.m.2.conv2.conv.weight", "backbone.backbone.dark5.1.conv2.conv.weight",
        "backbone.backbone.dark5.2.conv3.bn.bias", "backbone.lateral_conv0.conv.weight",
        "backbone.C3_n4.m.0.conv1.bn.running_var", "backbone.bu_conv1.bn.weight", "head.stems.0.conv.weight",
        "head.cls_convs.1.1.conv.weight", "head.reg_convs.2.0.bn.weight", "head.cls_preds.2.weight",
        "head.obj_preds.0.bias", "head.reg_preds.1.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Yolox, DecaySparesNormsAndBiases) {
  for (const auto& block : build_yolox(testing::tiny_yolox_config(true))) {
    for (const ParameterSpec& spec : block->parameters()) {
      EXPECT_EQ(spec.decay, spec.shape.rank() > 1) << block->full_name(spec);
    }
  }
}

void expect_refusal(const std::function<void()>& call, const char* part) {
  try {
    call();
    ADD_FAILURE() << "no error: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Yolox, RefusesWhatCannotBeBuilt) {
  expect_refusal([] { yolox_config_for_size("xl"); }, "there is no size 'xl'; use nano, tiny, s, m, l, x");
  expect_refusal([] { build_yolox({.layers = 0}); }, "layers 0");
  expect_refusal([] { build_yolox({.width = 0}); }, "width 0");
  expect_refusal([] { build_yolox({.classes = 0}); }, "classes 0");
  expect_refusal([] { yolox_anchors(416, 400); }, "416 x 400");
  expect_refusal([] { yolox_anchors(0, 32); }, "multiples of 32");
}

TEST(Yolox, HasOneRowForEachPixelOfTheThreeFeatureMaps) {
  EXPECT_EQ(yolox_anchors(640, 640), 8400);  // of the paper
  EXPECT_EQ(yolox_anchors(416, 416), 3549);
  for (const bool separable : {false, true}) {
    const YoloxConfig config = testing::tiny_yolox_config(separable);
    run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_yolox(config), comm, {.global_batch = 2, .micro_batch = 2});
      HostBatch batch = testing::yolox_source(config, 0)(0, 2);
      const Shape expected{2, 4 * 8 + 2 * 4 + 1 * 2, 5 + 3};
      EXPECT_EQ(engine.infer(batch).shape(), expected);
      batch.input_shape = {2, 64, 32, 3};  // the same pixels in another order
      EXPECT_EQ(engine.infer(batch).shape(), expected);
      batch.input_shape = {2, 48, 128 / 3, 3};
      expect_refusal([&] { engine.infer(batch); }, "an image of 48 x 42");
      batch.input_shape = {2, 3, 32, 64};
      expect_refusal([&] { engine.infer(batch); }, "are not images [B, H, W, 3]");
    });
  }
}

void expect_learning(const YoloxConfig& config) {
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(testing::build_yolox_with_loss(config), comm, {.global_batch = 8, .micro_batch = 4});
    const BatchSource source = testing::yolox_source(config, 0);
    std::set<std::string> flowed;
    std::size_t observed = 0;
    engine.observe_gradients([&](const std::string& name, const Tensor& gradient) {
      if (engine.steps_done() > 1) return;
      ++observed;
      for (const float value : engine.context().to_host(gradient)) {
        ASSERT_TRUE(std::isfinite(value)) << name;
        if (value != 0.0f) flowed.insert(name);
      }
    });
    const float first = engine.step(source, 8, 0.003).loss;
    engine.step(source, 8, 0.003);
    EXPECT_GT(observed, 0u);
    EXPECT_EQ(2 * flowed.size(), observed) << "a parameter has no gradient";
    for (int step = 0; step < 40; ++step) engine.step(source, 8, 0.003);
    EXPECT_LT(engine.step(source, 8, 0.003).loss, 0.3f * first);
  });
}

TEST(Yolox, EveryParameterHasAGradientAndTheNetworkLearns) {
  expect_learning(testing::tiny_yolox_config(false));
  expect_learning(testing::tiny_yolox_config(true));
}

}  // namespace
}  // namespace trireme

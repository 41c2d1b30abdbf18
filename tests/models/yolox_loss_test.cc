#include "models/yolox_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "tests/support/tiny_yolox.h"

namespace trireme {
namespace {

TEST(YoloxLoss, FollowsTheNetwork) {
  const YoloxConfig config = testing::tiny_yolox_config(false);
  const BlockList network = build_yolox(config), detector = build_yolox_detector(config);
  ASSERT_EQ(detector.size(), network.size() + 1);
  for (std::size_t i = 0; i < network.size(); ++i) EXPECT_EQ(detector[i]->name(), network[i]->name());
  EXPECT_EQ(detector.back()->name(), "loss");
  EXPECT_TRUE(detector.back()->parameters().empty() && detector.back()->counts_loss_terms());
}

// Objects are rare at first: a probability of 0.01.
TEST(YoloxLoss, ObjectsAreRareAtFirst) {
  for (const auto& block : build_yolox(testing::tiny_yolox_config(false))) {
    for (const ParameterSpec& spec : block->parameters()) {
      const std::string name = block->full_name(spec);
      if (name.find("_preds.") == std::string::npos || !name.ends_with(".bias")) continue;
      std::vector<float> values(static_cast<std::size_t>(spec.shape.num_elems()));
      initialize_parameter(spec, name, /*seed=*/1, 0, values);
      const bool is_box = name.find("reg_preds") != std::string::npos;
      for (const float value : values)
        EXPECT_NEAR(1 / (1 + std::exp(-value)), is_box ? 0.5 : 0.01, 1e-7) << name;
    }
  }
}

constexpr YoloxPicture kPicture{.height = 32, .width = 64, .classes = 3};
constexpr std::size_t kRows = 32 + 8 + 2, kRowNumbers = 8;

TEST(YoloxLoss, PredictionsBecomeDetections) {
  std::vector<float> rows(kRows * kRowNumbers, -20.0f);
  const auto set = [&](std::size_t row, const std::vector<float>& numbers) {
    std::copy(numbers.begin(), numbers.end(), rows.begin() + static_cast<std::ptrdiff_t>(row * kRowNumbers));
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  set(8 + 3, {0.5f, 0.25f, 0.0f, std::log(2.0f), 0.0f, -1.0f, 2.0f, 2.0f});  // stride 8, pixel (3, 1)
  set(20, {nan, 0, 0, 0, 9, 9, 9, 9});
  set(21, {0, 0, 1000, 0, 9, 9, 9, 9});
  set(32 + 4 + 1, {0, 0, 0, 0, 9, 9, 0, 0});  // stride 16, pixel (1, 1)
  set(32 + 8 + 1, {0, 0, 0, 0, 9, nan, nan, nan});
  const std::vector<Detection> found = yolox_detections(rows, kPicture, 0.1);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].label, 1);
  EXPECT_NEAR(found[0].score, 0.5 / (1 + std::exp(-2.0)), 1e-12);
  EXPECT_DOUBLE_EQ(found[0].box.x, 3.5 * 8 - 4);
  EXPECT_NEAR(found[0].box.y, 1.25 * 8 - 8, 1e-6);
  EXPECT_DOUBLE_EQ(found[0].box.width, 8);
  EXPECT_NEAR(found[0].box.height, 16, 1e-6);
  EXPECT_EQ(found[1].label, 0);
  EXPECT_DOUBLE_EQ(found[1].box.x, 16 - 8);
  EXPECT_TRUE(yolox_detections(rows, kPicture, 1.1).empty());
  EXPECT_EQ(yolox_detections(rows, kPicture, 0).size(), kRows - 3);
  rows.pop_back();
  EXPECT_THROW(yolox_detections(rows, kPicture, 0.1), Error);
}

// The loss falls, with and without L1, and an evaluation returns predictions beside it.
TEST(YoloxLoss, TheNetworkLearns) {
  const YoloxConfig config = testing::tiny_yolox_config(false);
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_yolox_detector(config), comm, {.global_batch = 8, .micro_batch = 4});
    const BatchSource source = testing::yolox_detector_source(config, 0);
    const float first = engine.step(source, 8, 0.003).loss;
    for (int step = 0; step < 60; ++step) engine.step(source, 8, 0.003);
    EXPECT_LT(engine.step(source, 8, 0.003).loss, 0.6f * first);
    std::size_t observed = 0;
    const float loss = engine.evaluate(source, 8, 8, [&](const Tensor& predictions, const Batch&) {
      EXPECT_EQ(predictions.shape(), (Shape{4, kRows, kRowNumbers}));
      const std::vector<float> rows = engine.context().to_host(predictions);
      for (std::size_t i = 0; i < 4; ++i) {
        const std::span<const float> picture(rows.data() + i * kRows * kRowNumbers, kRows * kRowNumbers);
        observed += yolox_detections(picture, kPicture, 0).size();
      }
    });
    EXPECT_TRUE(std::isfinite(loss));
    EXPECT_EQ(observed, 8 * kRows);
  });
}

// An evaluation has the loss of its predictions: the op, on all samples at once.
TEST(YoloxLoss, AnEvaluationDividesByAllForegroundAnchors) {
  const YoloxConfig config = testing::tiny_yolox_config(true);
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    const BatchSource source = testing::yolox_detector_source(config, 0);
    const auto evaluate = [&](std::int64_t micro_batch) {
      Engine engine(build_yolox_detector(config), comm, {.global_batch = 8, .micro_batch = micro_batch});
      return engine.evaluate(source, 8, 8);
    };
    const float whole = evaluate(8);
    EXPECT_GT(whole, 0);
    EXPECT_NEAR(evaluate(1), whole, 1e-5f * whole);
    EXPECT_NEAR(evaluate(2), whole, 1e-5f * whole);
  });
}

}  // namespace
}  // namespace trireme

#include "runtime/ops/detection_loss.h"

#include <gmock/gmock.h>

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"
#include "tests/support/gradcheck.h"

namespace trireme {
namespace {

using testing::expect_gradients;

constexpr std::int64_t kAnchors = 16 + 4 + 1, kNumbers = 5 + 2;
constexpr ops::DetectionLossOptions kSmallPicture{.grid = {.height = 32, .width = 32},
                                                  .inv_num_targets = 0.5f};

Tensor upload_floats(Context& ctx, const std::vector<float>& values, const Shape& shape) {
  return ctx.from_host(values.data(), shape, DType::kFloat32, MemoryCategory::kBatch);
}

// One object and one anchor that predicts it well, far from any other assignment. The logit of its class is
// 0, where the overlap as the target of the class, a constant, has no effect on the loss.
TEST(DetectionLoss, Gradients) {
  std::vector<float> values = testing::random_values(kAnchors * kNumbers, 5);
  for (std::int64_t a = 0; a < kAnchors; ++a) {
    float* const row = values.data() + a * kNumbers;
    row[2] = row[3] = -4;  // no overlap to speak of
    row[4] -= 3;
  }
  float* const row = values.data() + 5 * kNumbers;  // of stride 8, pixel (1, 1)
  const float own[kNumbers] = {0.3f, 0.7f, 0.5f, 0.8f, 2.0f, -1.0f, 0.0f};
  std::copy(own, own + kNumbers, row);
  const std::vector<float> targets = {-1, 0, 0, 0, 0, 1, 11.3f, 12.9f, 15.1f, 14.2f};
  for (const bool has_l1 : {false, true}) {
    expect_gradients({.input = {1, kAnchors, kNumbers},
                      .op =
                          [&](Context& ctx, const Tensor& x) {
                            const Tensor weights = has_l1 ? upload_floats(ctx, {0.75f}, {1}) : Tensor();
                            const ops::DetectionLoss loss = ops::detection_loss(
                                ctx, x, upload_floats(ctx, targets, {1, 2, 5}), weights, kSmallPicture);
                            if (ctx.exec.device.type == DeviceType::kCpu) {
                              EXPECT_EQ(ctx.to_host(loss.count)[0], 1);
                              EXPECT_EQ(ctx.to_host(loss.parts)[3] > 0, has_l1);
                            }
                            return loss.loss;
                          },
                      .input_values = values});
  }
}

// Predictions that are used elsewhere keep their values; the gradient is scaled before it is rounded.
TEST(DetectionLoss, CopiesSharedPredictionsAndScalesTheGradient) {
  Context ctx = Context::create({DeviceType::kCpu}, 1);
  Tape tape;
  ctx.tape = &tape;
  const float scale = 0x1p14f;
  ctx.gradient_scale = ctx.from_host(&scale, {}, DType::kFloat32);
  const std::vector<float> values(kAnchors * kNumbers, -16.0f);
  const Tensor wide = upload_floats(ctx, values, {1, kAnchors, kNumbers});
  const Tensor x = tape.watch(ops::cast(ctx, wide, DType::kFloat16));
  const ops::DetectionLoss loss =
      ops::detection_loss(ctx, x, upload_floats(ctx, {-1, 0, 0, 0, 0}, {1, 1, 5}), {}, kSmallPicture);
  EXPECT_EQ(ctx.to_host(ops::cast(ctx, x.detach(), DType::kFloat32)), values);
  EXPECT_EQ(ctx.to_host(loss.count)[0], 0);
  EXPECT_FLOAT_EQ(ctx.to_host(loss.loss)[0], 0.5f * kAnchors * 1.1253517e-7f);
  const Tensor dx = tape.backward(ctx, {{loss.loss.id(), {}}}, {x.id()})[0];
  EXPECT_EQ(dx.dtype(), DType::kFloat16);
  EXPECT_NEAR(ctx.to_host(dx)[4], 0.5f * 0x1p14f * 1.1253517e-7f, 1e-6f);
}

void expect_refusal(const std::function<void(Context&)>& run, const std::string& text) {
  Context ctx = Context::create({DeviceType::kCpu}, 1);
  try {
    run(ctx);
    ADD_FAILURE() << "no error with " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(text));
  }
}

TEST(DetectionLoss, RefusesWhatDoesNotFit) {
  const auto with = [](const Shape& predictions, const Shape& targets, const Shape& weights,
                       const AnchorGrid& grid) {
    return [=](Context& ctx) {
      ops::detection_loss(ctx, ctx.zeros(predictions), ctx.zeros(targets), ctx.zeros(weights),
                          {.grid = grid});
    };
  };
  const AnchorGrid grid{.height = 32, .width = 32};
  expect_refusal(with({1, kAnchors, 7}, {1, 1, 5}, {1}, {.height = 40, .width = 32}), "40 x 32");
  expect_refusal(with({1, 20, 7}, {1, 1, 5}, {1}, grid), "[B, 21, 5 + C]");
  expect_refusal(with({1, kAnchors, 5}, {1, 1, 5}, {1}, grid), "[B, 21, 5 + C]");
  expect_refusal(with({1, kAnchors, 7}, {2, 1, 5}, {1}, grid), "fp32 [1, M, 5]");
  expect_refusal(with({1, kAnchors, 7}, {1, 1, 5}, {2}, grid), "weights of the L1 part");
  expect_refusal(
      [&](Context& ctx) {
        ops::detection_loss(ctx, ctx.zeros({1, kAnchors, 7}), upload_floats(ctx, {2, 1, 1, 1, 1}, {1, 1, 5}),
                            {}, {.grid = grid});
      },
      "row 0 of the targets has class 2, but there are 2 classes");
}

}  // namespace
}  // namespace trireme

#include "runtime/loss_scaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {
namespace {

Context cpu() {
  return Context::create({DeviceType::kCpu}, 1);
}

// torch.cuda.amp.GradScaler.update(): the growth tracker restarts after a skip and after a growth.
struct GradScalerRule {
  float scale, growth_factor, backoff_factor;
  int growth_interval;
  int growth_tracker = 0;
  void update(bool found_inf) {
    if (found_inf) {
      scale *= backoff_factor;
      growth_tracker = 0;
    } else if (++growth_tracker == growth_interval) {
      scale *= growth_factor;
      growth_tracker = 0;
    }
  }
};

void decide(const Context& ctx, LossScaler& scaler, float norm) {
  scaler.update(ctx, ctx.from_host(&norm, {}, DType::kFloat32));
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(LossScaler, FollowsGradScaler) {
  const Context ctx = cpu();
  const LossScaleConfig config{.kind = LossScaleConfig::Kind::kDynamic,
                               .initial = 4096.0f,
                               .growth_factor = 3.0f,
                               .backoff_factor = 0.25f,
                               .growth_interval = 3};
  LossScaler scaler(ctx, config);
  GradScalerRule rule{config.initial, config.growth_factor, config.backoff_factor, config.growth_interval};
  std::int32_t updates = 0, in_a_row = 0;
  const std::vector<float> norms = {1, 2, kNan, 3, 4, 5, 6, kInfinity, -kInfinity, 7, 8, 9, 1, 2, 3, kNan, 1};
  for (const float norm : norms) {
    const float used = rule.scale;
    const bool skip = !std::isfinite(norm);
    rule.update(skip);
    decide(ctx, scaler, norm);
    updates += skip ? 0 : 1;
    in_a_row = skip ? in_a_row + 1 : 0;
    EXPECT_EQ(ctx.to_host(scaler.used_scale())[0], used);
    EXPECT_EQ(*static_cast<std::int32_t*>(scaler.skip().data()), skip ? 1 : 0);
    EXPECT_EQ(scaler.read(ctx), (LossScaleState{.scale = rule.scale,
                                                .clean_steps = rule.growth_tracker,
                                                .skipped_in_a_row = in_a_row,
                                                .updates = updates}));
  }
}

TEST(LossScaler, StaticAndOffSkipWithoutChangingAScale) {
  const Context ctx = cpu();
  for (const auto kind : {LossScaleConfig::Kind::kOff, LossScaleConfig::Kind::kStatic}) {
    LossScaler scaler(ctx, {.kind = kind, .initial = 128.0f, .growth_interval = 1});
    EXPECT_EQ(scaler.scale().defined(), kind == LossScaleConfig::Kind::kStatic);
    for (const float norm : {1.0f, kNan, kNan}) decide(ctx, scaler, norm);
    const LossScaleState state = scaler.read(ctx);
    EXPECT_EQ(state.scale, kind == LossScaleConfig::Kind::kStatic ? 128.0f : 0.0f);
    EXPECT_EQ(state.skipped_in_a_row, 2);
    EXPECT_EQ(state.updates, 1);
  }
}

TEST(LossScaler, StateComesBack) {
  const Context ctx = cpu();
  const LossScaleConfig config{.kind = LossScaleConfig::Kind::kDynamic};
  const LossScaleState state{.scale = 512.0f, .clean_steps = 7, .skipped_in_a_row = 2, .updates = 40};
  LossScaler scaler(ctx, config);
  scaler.write(ctx, state);
  EXPECT_EQ(scaler.read(ctx), state);
  scaler.write(ctx, {.updates = 3});  // state of a job without a scale: starts at the initial scale
  EXPECT_EQ(scaler.read(ctx), (LossScaleState{.scale = 65536.0f, .updates = 3}));
}

TEST(LossScaler, RefusesNumbersThatMakeNoSense) {
  const Context ctx = cpu();
  EXPECT_THROW(LossScaler(ctx, {.initial = 0.0f}), Error);
  EXPECT_THROW(LossScaler(ctx, {.initial = kInfinity}), Error);
  EXPECT_THROW(LossScaler(ctx, {.growth_factor = 0.5f}), Error);
  EXPECT_THROW(LossScaler(ctx, {.backoff_factor = 1.0f}), Error);
  EXPECT_THROW(LossScaler(ctx, {.growth_interval = 0}), Error);
}

}  // namespace
}  // namespace trireme

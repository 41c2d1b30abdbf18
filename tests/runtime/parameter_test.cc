#include "runtime/parameter.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/error.h"
#include "runtime/optim/lr_schedule.h"
#include "runtime/optim/optimizer.h"

namespace trireme {
namespace {

TEST(Initialize, DependsOnSeedNameAndElementAlone) {
  const ParameterSpec spec{.name = "w", .shape = {1000, 10}, .init = Initializer::normal(0.5f)};
  std::vector<float> whole(10000), piece(96), other(10000);
  initialize_parameter(spec, "a.w", 1, 0, whole);
  initialize_parameter(spec, "a.w", 1, 4000, piece);
  EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + 4000));
  initialize_parameter(spec, "b.w", 1, 0, other);
  EXPECT_NE(whole, other);
  initialize_parameter(spec, "a.w", 2, 0, other);
  EXPECT_NE(whole, other);
}

TEST(Initialize, IsStandardNormalTimesStddev) {
  const ParameterSpec spec{.name = "w", .shape = {200000}, .init = Initializer::normal(0.5f)};
  std::vector<float> values(200000);
  initialize_parameter(spec, "w", 3, 0, values);
  double m1 = 0, m2 = 0, m4 = 0;
  for (const double v : values) {
    m1 += v;
    m2 += v * v;
    m4 += v * v * v * v;
  }
  const double n = 200000;
  // Four standard errors of each moment of a normal: sigma / sqrt(n), sqrt(2) sigma^2 / sqrt(n), sqrt(96)
  // sigma^4 / sqrt(n).
  EXPECT_NEAR(m1 / n, 0.0, 4 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(m2 / n, 0.25, 4 * std::sqrt(2.0) * 0.25 / std::sqrt(n));
  EXPECT_NEAR(m4 / n, 3 * 0.0625, 4 * std::sqrt(96.0) * 0.0625 / std::sqrt(n));
}

TEST(Initialize, IsUniformWithinItsBound) {
  const ParameterSpec spec{.name = "a", .shape = {200000}, .init = Initializer::uniform(0.25f)};
  std::vector<float> values(200000), piece(97);
  initialize_parameter(spec, "a", 3, 0, values);
  initialize_parameter(spec, "a", 3, 1001, piece);
  EXPECT_TRUE(std::equal(piece.begin(), piece.end(), values.begin() + 1001));
  double m1 = 0, m2 = 0;
  for (const double v : values) {
    EXPECT_LT(std::abs(v), 0.25);
    m1 += v;
    m2 += v * v;
  }
  // Four standard errors: of the mean b / sqrt(3 n), of the square b^2 sqrt(4 / 45 n).
  const double n = 200000, b = 0.25;
  EXPECT_NEAR(m1 / n, 0.0, 4 * b / std::sqrt(3 * n));
  EXPECT_NEAR(m2 / n, b * b / 3, 4 * b * b * std::sqrt(4.0 / 45.0 / n));
}

TEST(LrScheduleTest, WarmsUpThenFollowsItsCurve) {
  const LrSchedule cosine{.kind = LrSchedule::Kind::kCosine,
                          .peak = 1e-3,
                          .floor = 1e-4,
                          .warmup_steps = 100,
                          .total_steps = 2000};
  EXPECT_DOUBLE_EQ(cosine.at(0), 1e-3 / 101);
  EXPECT_DOUBLE_EQ(cosine.at(99), 1e-3 * 100 / 101);
  EXPECT_DOUBLE_EQ(cosine.at(100), 1e-3);
  EXPECT_NEAR(cosine.at(1050), 5.5e-4, 1e-12);  // half way: the mean of both ends
  EXPECT_DOUBLE_EQ(cosine.at(2000), 1e-4);
  EXPECT_DOUBLE_EQ(cosine.at(5000), 1e-4);
  const LrSchedule linear{.kind = LrSchedule::Kind::kLinear, .peak = 1.0, .floor = 0.0, .total_steps = 10};
  EXPECT_DOUBLE_EQ(linear.at(3), 0.7);
  const LrSchedule constant{.peak = 0.5, .floor = 0.0, .total_steps = 10};
  EXPECT_DOUBLE_EQ(constant.at(9), 0.5);
}

// torch.optim.lr_scheduler.CosineAnnealingLR(T_max=10, eta_min=0.04) and LinearLR(end_factor=0.1,
// total_iters=10) with lr=0.4: the floor is the rate after the last of 10 steps.
TEST(LrScheduleTest, LastStepIsAboveTheFloor) {
  LrSchedule schedule{.kind = LrSchedule::Kind::kLinear, .peak = 0.4, .floor = 0.04, .total_steps = 10};
  EXPECT_NEAR(schedule.at(9), 0.076, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.at(10), 0.04);
  schedule.kind = LrSchedule::Kind::kCosine;
  EXPECT_NEAR(schedule.at(9), 0.0488098, 1e-7);
  EXPECT_DOUBLE_EQ(schedule.at(10), 0.04);
  schedule.kind = LrSchedule::Kind::kOneCycle;
  EXPECT_NEAR(schedule.at(9), 0.04, 1e-15);
}

TEST(LrScheduleTest, WarmUpStableDecay) {
  LrSchedule wsd{.kind = LrSchedule::Kind::kWsd,
                 .peak = 1.0,
                 .floor = 0.2,
                 .warmup_steps = 3,
                 .total_steps = 100,
                 .decay_steps = 4};
  EXPECT_DOUBLE_EQ(wsd.at(0), 0.25);
  for (const std::int64_t step : {3, 50, 96}) EXPECT_DOUBLE_EQ(wsd.at(step), 1.0) << step;
  EXPECT_DOUBLE_EQ(wsd.at(97), 0.8);
  EXPECT_DOUBLE_EQ(wsd.at(99), 0.4);
  EXPECT_DOUBLE_EQ(wsd.at(100), 0.2);
  wsd.decay_steps = 0;  // a tenth
  EXPECT_DOUBLE_EQ(wsd.at(90), 1.0);
  EXPECT_DOUBLE_EQ(wsd.at(95), 0.6);
}

// torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=10, final_div_factor=1e4) at each step.
TEST(LrScheduleTest, OneCycleIsPyTorchs) {
  const LrSchedule cycle{
      .kind = LrSchedule::Kind::kOneCycle, .peak = 1.0, .floor = 0.04e-4, .total_steps = 10};
  const double expected[] = {0.04,           0.52,          1,
                             0.950484632013, 0.81174565395, 0.611262021936,
                             0.388741978064, 0.18825834605, 0.0495193679865,
                             4e-06};
  for (std::int64_t step = 0; step < 10; ++step) EXPECT_NEAR(cycle.at(step), expected[step], 1e-9) << step;
  EXPECT_DOUBLE_EQ(cycle.at(20), 0.04e-4);
  const LrSchedule early{
      .kind = LrSchedule::Kind::kOneCycle, .peak = 1.0, .warmup_steps = 2, .total_steps = 10};
  EXPECT_NEAR(early.at(0), 0.04, 1e-15);  // 1 - 0.96
  EXPECT_DOUBLE_EQ(early.at(1), 1.0);
}

TEST(OptimizerTest, RefusesNumbersWithoutSense) {
  EXPECT_THROW(make_optimizer({.beta2 = 1.0f}), Error);
  EXPECT_THROW(make_optimizer({.weight_decay = -1.0f}), Error);
  EXPECT_THROW(make_optimizer({.kind = OptimizerConfig::Kind::kSgd, .nesterov = true}), Error);
  EXPECT_EQ(make_optimizer({.kind = OptimizerConfig::Kind::kSgd})->state_names().size(), 0u);
}

// Every chunk of [q | k | v] rows, of plain rows and of columns starts with the values of the whole
// parameter.
TEST(Initialize, SlicesStartAsTheWholeDoes) {
  const ParameterSpec whole{.name = "w", .shape = {12, 10}, .init = Initializer::normal(1.0f)};
  std::vector<float> all(120);
  initialize_parameter(whole, "block.w", 5, 0, all);
  for (const auto& [dim, sections] : {std::pair{CutDim::kRows, std::array{1, 1, 1}},
                                      {CutDim::kRows, std::array{1, 0, 0}},
                                      {CutDim::kRows, std::array{4, 1, 1}},
                                      {CutDim::kColumns, std::array{1, 0, 0}}}) {
    std::vector<int> times(120, 0);  // visits of each element
    for (int chunk = 0; chunk < 2; ++chunk) {
      const ParameterSpec spec =
          slice_of(whole, {.chunk = chunk, .chunks = 2, .dim = dim, .sections = sections});
      EXPECT_EQ(spec.shape, dim == CutDim::kRows ? Shape({6, 10}) : Shape({12, 5}));
      EXPECT_EQ(whole_shape(spec.slice, spec.shape), whole.shape);
      EXPECT_EQ(whole_name(spec.slice, "block." + spec.name), "block.w");
      std::vector<float> values(60), piece(7);
      initialize_parameter(spec, "block." + spec.name, 5, 0, values);
      initialize_parameter(spec, "block." + spec.name, 5, 13, piece);
      for (std::size_t i = 0; i < piece.size(); ++i) EXPECT_EQ(piece[i], values[13 + i]);
      for (std::int64_t at = 0; at < 60; ++at) {
        const auto place = static_cast<std::size_t>(run_from(spec.slice, spec.shape, at).first_of_whole);
        EXPECT_EQ(values[static_cast<std::size_t>(at)], all[place]) << at;
        ++times[place];
      }
    }
    EXPECT_EQ(times, std::vector<int>(120, 1));
  }
  // The second half of the keys' rows.
  const ParameterSlice second{.chunk = 1, .chunks = 2, .dim = CutDim::kRows, .sections = {1, 1, 1}};
  EXPECT_EQ(run_from(second, {6, 10}, 20).first_of_whole, 60);
  // The second halves in [8 q | 2 k | 2 v] rows: q from row 4, k at row 9, v at row 11.
  const ParameterSlice grouped{.chunk = 1, .chunks = 2, .dim = CutDim::kRows, .sections = {4, 1, 1}};
  for (const auto& [at, row] : {std::pair{0, 4}, {3, 7}, {4, 9}, {5, 11}})
    EXPECT_EQ(run_from(grouped, {6, 10}, 10 * at).first_of_whole, 10 * row);
  EXPECT_THROW(slice_of(whole, {.chunk = 0, .chunks = 8, .dim = CutDim::kRows}), Error);
}

}  // namespace
}  // namespace trireme

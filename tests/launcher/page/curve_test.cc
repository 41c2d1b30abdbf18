#include "launcher/page/curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

TEST(Curve, AShortOneIsKeptAsItIs) {
  Curve curve;
  for (int step = 1; step <= 1000; ++step) curve.add(step, step % 7);
  const auto points = curve.extremes();
  ASSERT_EQ(points.size(), 1000U);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(points[static_cast<std::size_t>(i)].step, i + 1);
    EXPECT_EQ(points[static_cast<std::size_t>(i)].value, (i + 1) % 7);
  }
}

TEST(Curve, ALongOneKeepsItsSpikesInBoundedRoom) {
  Curve curve;
  for (int step = 1; step <= 200'000; ++step)
    curve.add(step, step == 123'457 ? 1e6 : step == 77'777 ? -5 : std::sin(step));
  const auto points = curve.extremes();
  EXPECT_LE(points.size(), 2 * Curve::kMaxBuckets);
  EXPECT_GE(points.size(), Curve::kMaxBuckets / 2);
  EXPECT_TRUE(std::is_sorted(points.begin(), points.end(), [](auto& a, auto& b) { return a.step < b.step; }));
  EXPECT_TRUE(
      std::any_of(points.begin(), points.end(), [](auto& p) { return p.step == 123'457 && p.value == 1e6; }));
  EXPECT_TRUE(
      std::any_of(points.begin(), points.end(), [](auto& p) { return p.step == 77'777 && p.value == -5; }));
}

TEST(Curve, MeansOfTheSameStepsStandAtTheSameSteps) {
  Curve one, two;
  double sum = 0;
  for (int step = 1; step <= 10'000; ++step) {
    one.add(step, step % 2);
    two.add(step, 3);
  }
  const auto a = one.means(), b = two.means();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].step, b[i].step);
    EXPECT_EQ(b[i].value, 3);
    sum += a[i].value;
  }
  EXPECT_NEAR(sum / static_cast<double>(a.size()), 0.5, 0.01);
}

TEST(Curve, StepsThatAreMadeAnewAreForgotten) {
  Curve curve;
  for (int step = 1; step <= 5'000; ++step) curve.add(step, step);
  curve.cut(2'501);
  const auto points = curve.extremes();
  for (const auto& point : points) EXPECT_LE(point.step, 2'500);
  EXPECT_GE(points.back().step, 2'490);
  curve.cut(1);
  EXPECT_TRUE(curve.extremes().empty());
}

TEST(Curve, WhatIsNotFiniteIsLeftOut) {
  Curve curve;
  curve.add(1, 1);
  curve.add(2, std::nan(""));
  curve.add(3, INFINITY);
  EXPECT_EQ(curve.extremes().size(), 1U);
}

}  // namespace
}  // namespace trireme

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

struct Case {
  std::int64_t samples, positions, channels;
  std::int64_t num_elems() const { return samples * positions * channels; }
  std::string text() const { return fmt::format("[{}, {}, {}]", samples, positions, channels); }
};
constexpr Case kCases[] = {{1, 1, 1},    {3, 5, 7},    {2, 64, 32},  {1, 65, 129},
                           {2, 3, 2051}, {4, 256, 48}, {2, 1000, 33}};

class ShiftChannelsTest : public KernelTest {};

TEST_P(ShiftChannelsTest, AddsTheVectorOfEachSample) {
  for (const Case& c : kCases) {
    for (const DType dtype : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} {}", name(dtype), c.text()));
      const auto x = random(c.num_elems(), 1.0f, dtype), shift = random(c.samples * c.channels, 1.0f, dtype);
      const auto run = [&](bool in_place) {
        return same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
          const Shape shape{c.samples, c.positions, c.channels};
          const DeviceArray dev_x = rig.upload(shape, x, dtype), apart = rig.poisoned(shape, dtype);
          const DeviceArray dev_shift = rig.upload({c.samples, c.channels}, shift, dtype);
          const DeviceArray& y = in_place ? dev_x : apart;
          rig.run(ShiftChannelsArgs{.x = dev_x, .shift = dev_shift, .y = y});
          return {y.download()};
        });
      };
      const Outputs out = run(false);
      EXPECT_TRUE(same_bits(out[0], run(true)[0]));
      for (std::int64_t i = 0; i < c.num_elems(); ++i) {
        const std::int64_t sample = i / (c.positions * c.channels);
        ASSERT_EQ(out[0][i], rounded(x[i] + shift[sample * c.channels + i % c.channels], dtype)) << i;
      }
    }
  }
}

TEST_P(ShiftChannelsTest, SumsThePositionsOfEachSample) {
  for (const Case& c : kCases) {
    for (const DType dtype : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} {}", name(dtype), c.text()));
      const auto x = random(c.num_elems(), 1.0f, dtype);
      std::vector<double> expected(c.samples * c.channels, 0.0);
      for (std::int64_t i = 0; i < c.num_elems(); ++i) {
        expected[i / (c.positions * c.channels) * c.channels + i % c.channels] += x[i];
      }
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray dev_x = rig.upload({c.samples, c.positions, c.channels}, x, dtype);
        const DeviceArray sum = rig.poisoned({c.samples, c.channels}, dtype);
        rig.run(SumPositionsArgs{.x = dev_x, .sum = sum});
        return {sum.download()};
      });
      expect_close(
          out[0], expected,
          tolerance_of(dtype, kForwardTolerance).for_terms(static_cast<double>(c.positions), expected.size()),
          "sum");
    }
  }
}

TEST_P(ShiftChannelsTest, PassesOnNanAndInfinity) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{inf, 1.0f, 2.0f, nan, 3.0f, 4.0f}, shift{1.0f, 1.0f, inf};
  const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
    const DeviceArray dev_x = rig.upload({1, 2, 3}, x, DType::kFloat32);
    const DeviceArray dev_shift = rig.upload({1, 3}, shift, DType::kFloat32);
    const DeviceArray y = rig.poisoned({1, 2, 3}, DType::kFloat32);
    const DeviceArray sum = rig.poisoned({1, 3}, DType::kFloat32);
    rig.run(ShiftChannelsArgs{.x = dev_x, .shift = dev_shift, .y = y});
    rig.run(SumPositionsArgs{.x = dev_x, .sum = sum});
    return {y.download(), sum.download()};
  });
  EXPECT_EQ(out[0][0], inf);
  EXPECT_EQ(out[0][2], inf);
  EXPECT_TRUE(std::isnan(out[0][3]));
  EXPECT_TRUE(std::isnan(out[1][0]));
  EXPECT_EQ(out[1][1], 4.0f);
}

TRIREME_INSTANTIATE_KERNEL_TEST(ShiftChannelsTest);

}  // namespace
}  // namespace trireme::testing

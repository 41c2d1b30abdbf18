#include <array>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

class ConcatChannelsTest : public KernelTest {};

TEST_P(ConcatChannelsTest, JoinsAndSplitsRows) {
  for (const auto& [rows, left, right] : {std::array<std::int64_t, 3>{1, 1, 1},
                                          {3, 5, 2},
                                          {130, 64, 32},
                                          {7, 8, 7},
                                          {65, 640, 320},
                                          {200, 4, 12}}) {
    for (const DType dtype : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} rows of {} and {} {}", rows, left, right, name(dtype)));
      std::vector<float> a = random(rows * left, 1.0f, dtype), b = random(rows * right, 1.0f, dtype);
      a[0] = std::numeric_limits<float>::infinity();
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray y = rig.poisoned({rows, left + right}, dtype);
        const DeviceArray left_part = rig.poisoned({rows, left}, dtype),
                          right_part = rig.poisoned({rows, right}, dtype);
        rig.run(ConcatChannelsArgs{
            .a = rig.upload({rows, left}, a, dtype), .b = rig.upload({rows, right}, b, dtype), .y = y});
        rig.run(SplitChannelsArgs{.x = y, .a = left_part, .b = right_part});
        return {y.download(), left_part.download(), right_part.download()};
      });
      for (std::int64_t i = 0; i < rows * (left + right); ++i) {
        const std::int64_t row = i / (left + right), col = i % (left + right);
        ASSERT_EQ(out[0][i], col < left ? a[row * left + col] : b[row * right + col - left]) << i;
      }
      EXPECT_TRUE(same_bits(out[1], a) && same_bits(out[2], b));
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(ConcatChannelsTest);

}  // namespace
}  // namespace trireme::testing

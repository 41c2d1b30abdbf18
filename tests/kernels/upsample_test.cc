#include <array>
#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

const Shape kShapes[] = {{1, 1, 1, 1}, {2, 3, 5, 7}, {1, 4, 3, 64}, {3, 9, 8, 40}, {1, 2, 1, 2100}};

class UpsampleTest : public KernelTest {
 protected:
  static Shape doubled(const Shape& x) { return {x[0], 2 * x[1], 2 * x[2], x[3]}; }

  /// Elements of y that element `i` of x becomes, in the order of UpsampleBwdArgs.
  static std::array<std::int64_t, 4> copies_of(const Shape& x, std::int64_t i) {
    const std::int64_t c = i % x[3], w = i / x[3] % x[2], row = i / x[3] / x[2];
    const std::int64_t line = 2 * x[2] * x[3], first = 2 * row * line + 2 * w * x[3] + c;
    return {first, first + x[3], first + line, first + line + x[3]};
  }
};

TEST_P(UpsampleTest, CopiesEachPixelToFour) {
  for (const Shape& shape : kShapes) {
    for (const DType dtype : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} {}", shape.to_string(), name(dtype)));
      std::vector<float> x = random(shape.num_elems(), 1.0f, dtype);
      x[x.size() / 2] = std::numeric_limits<float>::infinity();
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray y = rig.poisoned(doubled(shape), dtype);
        rig.run(UpsampleFwdArgs{.x = rig.upload(shape, x, dtype), .y = y});
        return {y.download()};
      });
      for (std::int64_t i = 0; i < shape.num_elems(); ++i) {
        for (const std::int64_t copy : copies_of(shape, i)) ASSERT_EQ(out[0][copy], x[i]) << i;
      }
    }
  }
}

TEST_P(UpsampleTest, SumsTheGradientsOfFour) {
  for (const Shape& shape : kShapes) {
    for (const DType dtype : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} {}", shape.to_string(), name(dtype)));
      std::vector<float> dy = random(4 * shape.num_elems(), 1.0f, dtype);
      dy[0] = std::numeric_limits<float>::quiet_NaN();
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray dx = rig.poisoned(shape, dtype);
        rig.run(UpsampleBwdArgs{.dy = rig.upload(doubled(shape), dy, dtype), .dx = dx});
        return {dx.download()};
      });
      EXPECT_TRUE(std::isnan(out[0][0]));
      for (std::int64_t i = 1; i < shape.num_elems(); ++i) {
        const auto [a, b, c, d] = copies_of(shape, i);
        ASSERT_EQ(out[0][i], rounded((dy[a] + dy[b]) + (dy[c] + dy[d]), dtype)) << i;
      }
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(UpsampleTest);

}  // namespace
}  // namespace trireme::testing

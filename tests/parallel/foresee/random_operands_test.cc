#include "parallel/foresee/random_operands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/base/fp8.h"

namespace trireme {
namespace {

class RandomOperandsTest : public ::testing::Test {
 protected:
  Context ctx_ = Context::create({DeviceType::kCpu}, 1);
  RandomOperands operands_{ctx_};
};

TEST_F(RandomOperandsTest, IdsAreRowsOfTheTable) {
  const Tensor ids = ctx_.empty({8, 64}, DType::kInt32);
  operands_.fill_ids(ids, 50);
  const auto* values = static_cast<const std::int32_t*>(ids.data());
  const std::set<std::int32_t> distinct(values, values + 512);
  EXPECT_GE(*distinct.begin(), 0);
  EXPECT_LT(*distinct.rbegin(), 50);
  EXPECT_GT(distinct.size(), 40u);
}

TEST_F(RandomOperandsTest, CodesAreFiniteNumbersOfBothSigns) {
  for (const DType dtype : {DType::kE4m3, DType::kE5m2}) {
    const Tensor codes = ctx_.empty({4096}, dtype);
    operands_.fill(codes);
    float least = 0, most = 0;
    const auto* bytes = static_cast<const std::uint8_t*>(codes.data());
    for (int i = 0; i < 4096; ++i) {
      const float number = float_of_fp8(bytes[i], fp8_format(dtype));
      ASSERT_TRUE(std::isfinite(number));
      least = std::min(least, number);
      most = std::max(most, number);
    }
    EXPECT_LT(least, -100);
    EXPECT_GT(most, 100);
  }
}

}  // namespace
}  // namespace trireme

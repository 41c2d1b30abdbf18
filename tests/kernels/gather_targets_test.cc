#include <limits>

#include "tests/kernels/kernel_test.h"
#include "tests/support/temporary_folder.h"

namespace trireme::testing {
namespace {

struct Case {
  std::int64_t samples, tokens, per_sample, cols;
};
constexpr Case kCases[] = {{1, 1, 1, 1}, {2, 7, 3, 5}, {3, 40, 6, 264}, {5, 9, 9, 33}, {2, 16, 1, 4099}};

class GatherTargetsTest : public KernelTest {
 protected:
  /// Ascending positions, every third, of which the last ones of odd samples are -1.
  static std::vector<std::int32_t> positions_of(const Case& c) {
    std::vector<std::int32_t> positions;
    for (std::int64_t b = 0; b < c.samples; ++b) {
      const std::int64_t filled = b % 2 == 0 ? c.per_sample : c.per_sample / 2;
      const std::int64_t step = c.tokens / c.per_sample;
      for (std::int64_t k = 0; k < c.per_sample; ++k) {
        positions.push_back(k < filled ? static_cast<std::int32_t>(k * step + step - 1) : -1);
      }
    }
    return positions;
  }
};

TEST_P(GatherTargetsTest, CopiesRowsAndTheirGradients) {
  for (const Case& c : kCases) {
    const std::vector<std::int32_t> positions = positions_of(c);
    const auto targets = random_ints(c.samples * c.tokens, 0, 1000);
    const std::int64_t rows = c.samples * c.per_sample, all = c.samples * c.tokens;
    for (const DType dtype : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} [{}, {}, {}] {}", name(dtype), c.samples, c.tokens, c.cols, c.per_sample));
      const auto x = random(all * c.cols, 1.0f, dtype), dy = random(rows * c.cols, 1.0f, dtype);
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray dev_positions = rig.upload({c.samples, c.per_sample}, positions);
        const DeviceArray dev_x = rig.upload({c.samples, c.tokens, c.cols}, x, dtype);
        const DeviceArray dev_targets = rig.upload({c.samples, c.tokens}, targets);
        const DeviceArray y = rig.poisoned({rows, c.cols}, dtype);
        const DeviceArray y_targets = rig.poisoned({rows}, DType::kInt32);
        rig.run(GatherTargetsArgs{
            .positions = dev_positions, .x = dev_x, .targets = dev_targets, .y = y, .y_targets = y_targets});
        const DeviceArray dx = rig.poisoned({c.samples, c.tokens, c.cols}, dtype);
        const DeviceArray dev_dy = rig.upload({rows, c.cols}, dy, dtype);
        rig.run(ScatterTargetsArgs{.positions = dev_positions, .dy = dev_dy, .dx = dx});
        const auto taken = y_targets.download_ints();
        return {y.download(), {taken.begin(), taken.end()}, dx.download()};
      });
      std::vector<float> y(rows * c.cols, 0.0f), y_targets(rows, -1.0f), dx(all * c.cols, 0.0f);
      for (std::int64_t row = 0; row < rows; ++row) {
        if (positions[row] < 0) continue;
        const std::int64_t token = row / c.per_sample * c.tokens + positions[row];
        std::copy_n(x.begin() + token * c.cols, c.cols, y.begin() + row * c.cols);
        std::copy_n(dy.begin() + row * c.cols, c.cols, dx.begin() + token * c.cols);
        y_targets[row] = static_cast<float>(targets[token]);
      }
      EXPECT_EQ(out, (Outputs{y, y_targets, dx}));
    }
  }
}

TEST_P(GatherTargetsTest, APositionBeyondTheSampleIsRefused) {
  if (GetParam() != DeviceType::kCpu)
    GTEST_SKIP() << "positions on a GPU are not checked: the host would wait";
  const Rig rig(GetParam(), 2);
  const DeviceArray x = rig.upload({1, 3, 2}, random(6)), y = rig.poisoned({1, 2});
  const DeviceArray targets = rig.upload({1, 3}, std::vector<std::int32_t>{0, 1, 2});
  const DeviceArray y_targets = rig.poisoned({1}, DType::kInt32);
  for (const std::int32_t wrong : {3, -2, std::numeric_limits<std::int32_t>::max()}) {
    const DeviceArray positions = rig.upload({1, 1}, std::vector<std::int32_t>{wrong});
    const std::string words = fmt::format("target position {} at index 0 of [1, 1] is not in [-1, 3)", wrong);
    const std::string gather = message_of([&] {
      rig.run(GatherTargetsArgs{
          .positions = positions, .x = x, .targets = targets, .y = y, .y_targets = y_targets});
    });
    const std::string scatter =
        message_of([&] { rig.run(ScatterTargetsArgs{.positions = positions, .dy = y, .dx = x}); });
    EXPECT_NE(gather.find(words), std::string::npos) << gather;
    EXPECT_NE(scatter.find(words), std::string::npos) << scatter;
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(GatherTargetsTest);

}  // namespace
}  // namespace trireme::testing

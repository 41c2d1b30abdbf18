#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"
#include "tests/support/temporary_folder.h"

namespace trireme::testing {
namespace {

class PieceCrossEntropyTest : public KernelTest {
 protected:
  // Returns loss, statistics, and the logits of all pieces afterwards.
  static Outputs run(const Rig& rig, int pieces, std::int64_t rows, std::int64_t cols,
                     const std::vector<float>& logits, const std::vector<std::int32_t>& targets, float scale,
                     bool write_gradient, DType dtype, float gradient_scale) {
    const std::int64_t width = cols / pieces;
    const DeviceArray dev_targets = rig.upload({rows}, targets), loss = rig.poisoned({});
    std::vector<DeviceArray> parts, statistics;
    for (int p = 0; p < pieces; ++p) {
      std::vector<float> part(static_cast<std::size_t>(rows * width));
      for (std::int64_t i = 0; i < rows * width; ++i) {
        part[static_cast<std::size_t>(i)] =
            logits[static_cast<std::size_t>(i / width * cols + p * width + i % width)];
      }
      parts.push_back(rig.upload({rows, width}, part, dtype));
      statistics.push_back(rig.poisoned({3, rows}));
      rig.run(LogitStatisticsArgs{.logits = parts.back(),
                                  .targets = dev_targets,
                                  .statistics = statistics.back(),
                                  .first_class = p * width,
                                  .num_classes = cols});
    }
    for (int apart = 1; apart < pieces; apart *= 2) {
      for (int left = 0; left < pieces; left += 2 * apart) {
        rig.run(JoinLogitStatisticsArgs{.a = statistics[static_cast<std::size_t>(left)],
                                        .b = statistics[static_cast<std::size_t>(left + apart)],
                                        .out = statistics[static_cast<std::size_t>(left)]});
      }
    }
    std::vector<float> gradient(static_cast<std::size_t>(rows * cols));
    for (int p = 0; p < pieces; ++p) {
      const DeviceArray& part = parts[static_cast<std::size_t>(p)];
      PieceCrossEntropyArgs args{.logits = part,
                                 .targets = dev_targets,
                                 .statistics = statistics[0],
                                 .first_class = p * width,
                                 .inv_num_targets = scale,
                                 .write_gradient = write_gradient};
      const DeviceArray factor = rig.scalar(gradient_scale);
      args.gradient_scale = factor;
      if (p == 0) args.loss = loss;
      rig.run(args);
      const std::vector<float> values = part.download();
      for (std::int64_t i = 0; i < rows * width; ++i) {
        gradient[static_cast<std::size_t>(i / width * cols + p * width + i % width)] =
            values[static_cast<std::size_t>(i)];
      }
    }
    return {loss.download(), statistics[0].download(), gradient};
  }
};

// Any number of pieces gives the result of SoftmaxCrossEntropyArgs over all classes.
TEST_P(PieceCrossEntropyTest, MatchesReference) {
  constexpr float kGradientScale = 32768.0f;
  for (const DType dtype : kFloatTypes) {
    for (const auto& [rows, cols, pieces] :
         {std::tuple<std::int64_t, std::int64_t, int>{2, 32, 2}, {5, 24, 8}, {67, 1000, 4}, {3, 4098, 1}}) {
      SCOPED_TRACE(fmt::format("[{}, {}] in {} {}", rows, cols, pieces, name(dtype)));
      const auto logits = random(rows * cols, 8.0f, dtype);
      auto targets = random_ints(rows, 0, static_cast<int>(cols) - 1);
      if (rows > 2) targets[rows / 2] = -1;
      const float scale = 0.5f / static_cast<float>(rows);
      double loss = 0;
      std::vector<double> gradient(rows * cols, 0.0);
      for (std::int64_t m = 0; m < rows; ++m) {
        if (targets[m] < 0) continue;
        double sum = 0;
        for (std::int64_t j = 0; j < cols; ++j) sum += std::exp(double{logits[m * cols + j]});
        loss += scale * (std::log(sum) - logits[m * cols + targets[m]]);
        for (std::int64_t j = 0; j < cols; ++j) {
          gradient[m * cols + j] =
              kGradientScale * scale * (std::exp(double{logits[m * cols + j]}) / sum - (j == targets[m]));
        }
      }
      for (const bool write_gradient : {false, true}) {
        const Outputs out = same_bits_for_all_threads([&, rows = rows, cols = cols,
                                                       pieces = pieces](const Rig& rig) -> Outputs {
          return run(rig, pieces, rows, cols, logits, targets, scale, write_gradient, dtype, kGradientScale);
        });
        expect_close(out[0], {loss}, kForwardTolerance, "loss");
        if (write_gradient) {
          expect_close(out[2], gradient, tolerance_of(dtype, kBackwardTolerance), "gradient");
        } else {
          EXPECT_TRUE(same_bits(out[2], logits));
        }
      }
    }
  }
}

// Rows that do not count have zero statistics, and a target in another piece gives no logit.
TEST_P(PieceCrossEntropyTest, Statistics) {
  const Rig r = rig();
  const DeviceArray out = r.poisoned({3, 3});
  r.run(LogitStatisticsArgs{.logits = r.upload({3, 2}, std::vector<float>{1, 3, 2, 2, 9, 9}),
                            .targets = r.upload({3}, std::vector<std::int32_t>{5, 1, -1}),
                            .statistics = out,
                            .first_class = 4,
                            .num_classes = 6});
  const auto statistics = out.download();
  expect_close({statistics[3], statistics[4]}, {1 + std::exp(-2.0), 2.0}, kForwardTolerance, "sums");
  const std::vector<float> expected = {3, 2, 0, statistics[3], statistics[4], 0, 3, 0, 0};
  EXPECT_EQ(statistics, expected);
}

// Non-finite values reach the loss, as without pieces.
TEST_P(PieceCrossEntropyTest, NanReachesTheLoss) {
  const Outputs out = run(rig(), 2, 1, 4, {0, 1, std::numeric_limits<float>::quiet_NaN(), 1}, {0}, 1.0f, true,
                          DType::kFloat32, 1.0f);
  EXPECT_TRUE(std::isnan(out[0][0]));
}

TEST_P(PieceCrossEntropyTest, ATargetBeyondAllPiecesIsRefused) {
  if (GetParam() != DeviceType::kCpu) GTEST_SKIP() << "targets on a GPU are not checked: the host would wait";
  const auto message = message_of([&] {
    run(rig(), 2, 1, 4, {0, 1, 2, 3}, {4}, 1, true, DType::kFloat32, 1);
  });
  EXPECT_NE(message.find("target 4 at index 0 of [1] is not"), std::string::npos) << message;
}

TRIREME_INSTANTIATE_KERNEL_TEST(PieceCrossEntropyTest);

}  // namespace
}  // namespace trireme::testing

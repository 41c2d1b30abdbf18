#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"
#include "tests/support/temporary_folder.h"

namespace trireme::testing {
namespace {

class CrossEntropyTest : public KernelTest {
 protected:
  // Returns the loss and the logits afterwards.
  static Outputs run(const Rig& rig, const Shape& shape, const std::vector<float>& logits,
                     const std::vector<std::int32_t>& targets, float inv_num_targets, bool write_gradient,
                     DType dtype = DType::kFloat32, float gradient_scale = 1.0f) {
    const DeviceArray dev_logits = rig.upload(shape, logits, dtype), loss = rig.poisoned({});
    rig.run(SoftmaxCrossEntropyArgs{.logits = dev_logits,
                                    .targets = rig.upload({shape[0]}, targets),
                                    .loss = loss,
                                    .inv_num_targets = inv_num_targets,
                                    .gradient_scale = rig.scalar(gradient_scale),
                                    .write_gradient = write_gradient});
    return {loss.download(), dev_logits.download()};
  }

  void matches_reference(DType dtype);
};

// Without a loss scale, the gradient of a large vocabulary would underflow in fp16.
constexpr float kGradientScale = 32768.0f;

TEST_P(CrossEntropyTest, MatchesReference) {
  for (const DType dtype : kFloatTypes) matches_reference(dtype);
}

void CrossEntropyTest::matches_reference(DType dtype) {
  for (const auto& [rows, cols] :
       {std::array<std::int64_t, 2>{1, 1}, {3, 127}, {127, 1000}, {768, 65}, {5, 50257}}) {
    SCOPED_TRACE(fmt::format("[{}, {}] {}", rows, cols, name(dtype)));
    const auto logits = random(rows * cols, 8.0f, dtype);
    auto targets = random_ints(rows, 0, static_cast<int>(cols) - 1);
    if (rows > 1) targets[rows / 2] = -1;
    if (rows > 2) targets[0] = -100;
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
      const Outputs out = same_bits_for_all_threads([&, shape = Shape{rows, cols}](const Rig& rig) {
        return run(rig, shape, logits, targets, scale, write_gradient, dtype, kGradientScale);
      });
      if (cols > 1) expect_close(out[0], {loss}, kForwardTolerance, "loss");
      if (write_gradient) {
        expect_close(out[1], gradient, tolerance_of(dtype, kBackwardTolerance), "gradient");
      } else {
        EXPECT_TRUE(same_bits(out[1], logits));
      }
    }
  }
}

// The factor applies to the gradient but not to the loss.
TEST_P(CrossEntropyTest, GradientScale) {
  const std::int64_t rows = 9, cols = 1000;
  const auto logits = random(rows * cols, 8.0f);
  auto targets = random_ints(rows, 0, static_cast<int>(cols) - 1);
  targets[4] = -1;
  const Outputs plain = run(rig(), {rows, cols}, logits, targets, 0.125f, true);
  for (const float scale : {1.0f, 65536.0f, 3.0f}) {
    for (const bool write_gradient : {false, true}) {
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) {
        return run(rig, {rows, cols}, logits, targets, 0.125f, write_gradient, DType::kFloat32, scale);
      });
      EXPECT_TRUE(same_bits(out[0], plain[0]));
      if (!write_gradient) {
        EXPECT_TRUE(same_bits(out[1], logits));
        continue;
      }
      std::vector<double> expected(plain[1].begin(), plain[1].end());
      for (double& value : expected) value *= scale;
      expect_close(out[1], expected, 1e-6, "gradient");
    }
  }
}

// A gradient beyond fp16 becomes infinite, which reveals a loss scale that is too large.
TEST_P(CrossEntropyTest, AGradientBeyondFp16IsInfinite) {
  const Outputs out = run(rig(), {1, 2}, {0.0f, 0.0f}, {1}, 1.0f, true, DType::kFloat16, 2.0f * 65536.0f);
  EXPECT_EQ(out[1], (std::vector<float>{std::numeric_limits<float>::infinity(),
                                        -std::numeric_limits<float>::infinity()}));
  EXPECT_TRUE(std::isfinite(out[0][0]));
}

TEST_P(CrossEntropyTest, LargeLogits) {
  const std::vector<float> logits = {1e4f, 9.99e3f, -1e4f, 0.0f};
  const Outputs out = run(rig(), {1, 4}, logits, {1}, 1.0f, true);
  expect_close(out[0], {10.0 + std::log1p(std::exp(-10.0))}, kForwardTolerance, "loss");
  expect_close(out[1], {1 / (1 + std::exp(-10.0)), 1 / (1 + std::exp(10.0)) - 1, 0, 0}, kBackwardTolerance,
               "gradient");
}

TEST_P(CrossEntropyTest, NanAndInfinityPropagate) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const std::int64_t where : {0, 50, 129}) {  // first, middle, and in the tail of the vector loop
      auto logits = random(4 * 130);
      logits[2 * 130 + where] = bad;
      const Outputs out = run(rig(), {4, 130}, logits, {1, 2, 3, 4}, 1.0f, true);
      EXPECT_TRUE(std::isnan(out[0][0])) << bad << " at " << where;
      for (std::int64_t i = 0; i < 4 * 130; ++i) {
        EXPECT_EQ(std::isnan(out[1][i]), i / 130 == 2) << bad << " at " << where << ": " << i;
      }
    }
  }
}

TEST_P(CrossEntropyTest, ATargetBeyondTheClassesIsRefused) {
  if (GetParam() != DeviceType::kCpu) GTEST_SKIP() << "targets on a GPU are not checked: the host would wait";
  const Rig rig(GetParam(), 2);
  for (const std::int32_t wrong : {5, 60000}) {
    const std::string message = message_of([&] { run(rig, {3, 5}, random(15), {4, -1, wrong}, 1.0f, true); });
    EXPECT_NE(message.find(fmt::format("target {} at index 2 of [3]", wrong)), std::string::npos) << message;
  }
}

// A short row stays on chip between the passes; a long one is read again. The long row is the short one
// extended by classes of probability 0.
TEST_P(CrossEntropyTest, KeptRowsGiveTheBitsOfRowsReadAgain) {
  if (GetParam() == DeviceType::kCpu) GTEST_SKIP() << "rows are not kept on the CPU";
  const std::int64_t rows = 3, cols = 20000, wide = 3 * cols;  // in fp32, 80 KB and 240 KB a row
  const auto targets = random_ints(rows, 0, static_cast<int>(cols) - 1);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const std::int64_t factor = dtype == DType::kFloat32 ? 1 : 2;
    const std::int64_t n = cols * factor, wide_n = wide * factor;
    const auto logits = random(rows * n, 8.0f, dtype);
    std::vector<float> padded(rows * wide_n, -std::numeric_limits<float>::infinity());
    for (std::int64_t m = 0; m < rows; ++m)
      std::copy_n(logits.begin() + m * n, n, padded.begin() + m * wide_n);
    const Outputs kept = run(rig(), {rows, n}, logits, targets, 0.125f, true, dtype);
    const Outputs again = run(rig(), {rows, wide_n}, padded, targets, 0.125f, true, dtype);
    EXPECT_TRUE(same_bits(kept[0], again[0]));
    for (std::int64_t m = 0; m < rows; ++m) {
      const auto row = again[1].begin() + m * wide_n;
      EXPECT_TRUE(same_bits({kept[1].begin() + m * n, kept[1].begin() + (m + 1) * n}, {row, row + n}));
      EXPECT_TRUE(std::all_of(row + n, row + wide_n, [](float g) { return g == 0.0f; }));
    }
  }
}

// The NaN between the rows are neither read nor, but for the rest of a pack, written. Losses and gradients
// are those of contiguous rows, up to the order of sums.
TEST_P(CrossEntropyTest, RowsApart) {
  for (const auto& [rows, cols, pitch] :
       {std::array<std::int64_t, 3>{3, 127, 128}, {5, 517, 576}, {4, 4099, 4160}, {2, 130001, 130048}}) {
    const auto targets = random_ints(rows, -1, static_cast<int>(cols) - 1);
    for (const DType dtype : kFloatTypes) {
      SCOPED_TRACE(fmt::format("[{}, {}] {}", rows, cols, name(dtype)));
      const auto logits = random(rows * cols, 8.0f, dtype);
      std::vector<float> apart(rows * pitch, std::numeric_limits<float>::quiet_NaN());
      for (std::int64_t m = 0; m < rows; ++m) {
        std::copy_n(logits.begin() + m * cols, cols, apart.begin() + m * pitch);
      }
      for (const bool smooth : {false, true}) {
        const auto run_rows = [&](const std::vector<float>& values, std::int64_t distance) {
          return same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
            const DeviceArray memory = rig.upload({rows, distance}, values, dtype), loss = rig.poisoned({});
            TensorView view = memory;
            view.shape = {rows, cols};
            rig.run(SoftmaxCrossEntropyArgs{.logits = view,
                                            .targets = rig.upload({rows}, targets),
                                            .loss = loss,
                                            .inv_num_targets = 0.25f,
                                            .label_smoothing = smooth ? 0.1f : 0.0f,
                                            .gradient_scale = rig.scalar(kGradientScale),
                                            .write_gradient = true,
                                            .logits_pitch = distance == cols ? 0 : distance});
            const auto all = memory.download();
            Outputs out{loss.download(), {}};
            for (std::int64_t m = 0; m < rows; ++m) {
              out[1].insert(out[1].end(), all.begin() + m * distance, all.begin() + m * distance + cols);
            }
            return out;
          });
        };
        const Outputs together = run_rows(logits, cols), out = run_rows(apart, pitch);
        expect_close(out[0], {together[0].begin(), together[0].end()}, kForwardTolerance, "loss");
        expect_close(out[1], {together[1].begin(), together[1].end()},
                     tolerance_of(dtype, kBackwardTolerance), "gradient");
      }
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(CrossEntropyTest);

}  // namespace
}  // namespace trireme::testing

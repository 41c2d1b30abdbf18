#include <cmath>
#include <limits>

#include "runtime/base/fp8.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

class SwigluTest : public KernelTest {};

struct Sizes {
  std::int64_t rows, cols;
};
constexpr Sizes kSizes[] = {{1, 1}, {3, 7}, {5, 64}, {2, 2049}, {130, 96}};

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

TEST_P(SwigluTest, MatchesReference) {
  for (const DType dtype : kFloatTypes) {
    for (const auto [rows, cols] : kSizes) {
      SCOPED_TRACE(fmt::format("{} [{}, {}]", name(dtype), rows, cols));
      const auto x = random(2 * rows * cols, 6.0f, dtype), dy = random(rows * cols, 1.0f, dtype);
      const auto run = [&](bool in_place) {
        return same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
          const DeviceArray dev_x = rig.upload({rows, 2 * cols}, x, dtype);
          const DeviceArray y = rig.poisoned({rows, cols}, dtype);
          const DeviceArray apart = rig.poisoned({rows, 2 * cols}, dtype);
          rig.run(SwigluFwdArgs{.x = dev_x, .y = y, .out = {}});
          const DeviceArray& dx = in_place ? dev_x : apart;
          rig.run(SwigluBwdArgs{.dy = rig.upload({rows, cols}, dy, dtype), .x = dev_x, .dx = dx, .out = {}});
          return {y.download(), dx.download()};
        });
      };
      const Outputs out = run(false), in_place = run(true);
      EXPECT_TRUE(same_bits(out[1], in_place[1]));
      std::vector<double> y(rows * cols), dx(2 * rows * cols);
      for (std::int64_t i = 0; i < rows * cols; ++i) {
        const std::int64_t at = i / cols * 2 * cols + i % cols;
        const double g = x[at], u = x[at + cols], s = sigmoid(g);
        y[i] = g * s * u;
        dx[at] = dy[i] * u * (s + g * s * (1.0 - s));
        dx[at + cols] = dy[i] * g * s;
      }
      expect_close(out[0], y, tolerance_of(dtype, kForwardTolerance).for_terms(1.0, y.size()), "y");
      expect_close(out[1], dx, tolerance_of(dtype, kBackwardTolerance).for_terms(1.0, dx.size()), "dx");
    }
  }
}

// Codes from the op are the codes of its result, bit by bit, with and without a history.
TEST_P(SwigluTest, WritesTheCodesOfItsResult) {
  struct Bytes {
    std::vector<std::vector<std::uint8_t>> codes;
    std::vector<float> scales;
    bool operator==(const Bytes&) const = default;
  };
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const auto [rows, cols] : kSizes) {
      for (const float reference : {0.0f, 2.0f}) {
        SCOPED_TRACE(fmt::format("{} [{}, {}], {}", name(dtype), rows, cols, reference));
        const auto x = random(2 * rows * cols, 6.0f, dtype), dy = random(rows * cols, 1.0f, dtype);
        const Rig r = rig();
        const DeviceArray dev_x = r.upload({rows, 2 * cols}, x, dtype),
                          dev_dy = r.upload({rows, cols}, dy, dtype);
        std::vector<float> maxima(kFp8HistoryElems, 0.0f);
        maxima[1] = reference;
        const DeviceArray history = r.upload({kFp8HistoryElems}, maxima);
        const auto coded = [&](std::int64_t width, DType to, const auto& run) {
          const DeviceArray codes = r.poisoned({rows, width}, to), turned = r.poisoned({width, rows}, to);
          const DeviceArray scale = r.poisoned({}), sample = r.scalar(0.0f);
          run(CodesOutput{
              .history = history, .codes = codes, .turned = turned, .inverse_scale = scale, .amax = sample});
          const auto n = static_cast<std::size_t>(rows * width);
          Bytes bytes{.codes = {std::vector<std::uint8_t>(n), std::vector<std::uint8_t>(n)},
                      .scales = {scale.download()[0], sample.download()[0]}};
          r->copy_to_host(r.exec(), bytes.codes[0].data(), codes.view());
          r->copy_to_host(r.exec(), bytes.codes[1].data(), turned.view());
          return bytes;
        };
        const DeviceArray y = r.poisoned({rows, cols}, dtype), dx = r.poisoned({rows, 2 * cols}, dtype);
        r.run(SwigluFwdArgs{.x = dev_x, .y = y, .out = {}});
        r.run(SwigluBwdArgs{.dy = dev_dy, .x = dev_x, .dx = dx, .out = {}});
        const auto quantized = [&r](const DeviceArray& of) {
          return [&](const CodesOutput& out) { r.run(QuantizeArgs{.x = of, .out = out}); };
        };
        EXPECT_EQ(
            coded(cols, DType::kE4m3,
                  [&](const CodesOutput& out) { r.run(SwigluFwdArgs{.x = dev_x, .y = {}, .out = out}); }),
            coded(cols, DType::kE4m3, quantized(y)));
        EXPECT_EQ(coded(2 * cols, DType::kE5m2,
                        [&](const CodesOutput& out) {
                          r.run(SwigluBwdArgs{.dy = dev_dy, .x = dev_x, .dx = {}, .out = out});
                        }),
                  coded(2 * cols, DType::kE5m2, quantized(dx)));
      }
    }
  }
}

TEST_P(SwigluTest, NanInfinityAndLargeGates) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {kNan, kInfinity, 200, -200, 1, 1, 2, 3, 3, kNan};
  const Rig r = rig();
  const std::vector<float> dy = {1, 1, 1, 1, kInfinity};
  const DeviceArray y = r.poisoned({1, 5}), dx = r.poisoned({1, 10});
  r.run(SwigluFwdArgs{.x = r.upload({1, 10}, x), .y = y, .out = {}});
  const auto out = y.download();
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], kInfinity);
  EXPECT_EQ(out[2], 600.0f);
  EXPECT_EQ(out[3], 0.0f);
  EXPECT_TRUE(std::isnan(out[4]));
  r.run(SwigluBwdArgs{.dy = r.upload({1, 5}, dy), .x = r.upload({1, 10}, x), .dx = dx, .out = {}});
  const auto gradient = dx.download();
  EXPECT_TRUE(std::isnan(gradient[0]));
  EXPECT_EQ(gradient[2], 3.0f);
  EXPECT_EQ(gradient[3], 0.0f);
  EXPECT_EQ(gradient[7], 200.0f);
  EXPECT_EQ(gradient[8], 0.0f);
  EXPECT_TRUE(std::isnan(gradient[4]));
}

TRIREME_INSTANTIATE_KERNEL_TEST(SwigluTest);

}  // namespace
}  // namespace trireme::testing

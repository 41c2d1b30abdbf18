// Every instruction set of this machine must convolve a square as the definition does. The conformance suite
// checks whole images on the newest set.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/cpu/numerics.h"

namespace trireme::cpu {
namespace {

using Floats = std::vector<float>;

constexpr std::int64_t kChannels = 48, kBlock = WinogradNumerics::kWeightBlock;  // a panel and a half
constexpr std::int64_t kPoints = WinogradNumerics::kPoints, kPanel = WinogradPoints::kPanel;
constexpr int kIn = WinogradNumerics::kInput, kOut = WinogradNumerics::kOutput, kTaps = 9;
constexpr std::int64_t kStrip = 8, kPitch = 2 * kPanel * kStrip;  // for the points of kStrip squares
constexpr std::int64_t kWeightPitch = kChannels * kBlock;

Floats random(std::int64_t n) {
  std::mt19937 generator(static_cast<std::mt19937::result_type>(n));
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  Floats values(static_cast<std::size_t>(n));
  for (float& value : values) value = uniform(generator);
  return values;
}

WinogradPatch patch_of(int size, std::int64_t channels) {
  return {.channels = channels,
          .row_pitch = size * channels,
          .first_row = 0,
          .end_row = size,
          .first_col = 0,
          .end_col = size};
}

struct Square {
  Floats x = random(kIn * kIn * kChannels), dy = random(kOut * kOut * kBlock);
  Floats weight = random(kChannels * kTaps * kBlock);  // [channel, tap, output]

  // x at the pixel that tap t of output pixel (i, j) reads.
  double at(int i, int j, int t, std::int64_t c) const {
    return x[static_cast<std::size_t>(((i + t / 3) * kIn + j + t % 3) * kChannels + c)];
  }
};

/// Expects |a - b| / |b| below `tolerance`, in norms.
void expect_close(const Floats& a, const std::vector<double>& b, double tolerance) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  EXPECT_GT(norm, 0);
  EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(norm));
}

TEST(WinogradNumericsTest, ForwardIsTheConvolution) {
  const Square s;
  std::vector<double> expected(kOut * kOut * kBlock);
  for (int i = 0; i < kOut; ++i) {
    for (int j = 0; j < kOut; ++j) {
      for (int t = 0; t < kTaps; ++t) {
        for (std::int64_t c = 0; c < kChannels; ++c) {
          for (std::int64_t n = 0; n < kBlock; ++n) {
            expected[static_cast<std::size_t>((i * kOut + j) * kBlock + n)] +=
                s.at(i, j, t, c) * s.weight[static_cast<std::size_t>((c * kTaps + t) * kBlock + n)];
          }
        }
      }
    }
  }
  for (const Numerics* const* table = supported_numerics(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->isa);
    const WinogradNumerics& w = *(*table)->winograd;
    // Rows of channels for one of kStrip squares; the other squares are zero.
    Floats points(kPoints * kStrip * kChannels), weight(kPoints * kWeightPitch);
    Floats products(kPoints * kStrip * kBlock), y(kOut * kOut * kBlock, NAN);
    w.input_to_points(patch_of(kIn, kChannels), s.x.data(), {points.data(), kStrip * kChannels, kPanel});
    for (std::int64_t c = 0; c < kChannels; ++c) {
      w.weight_to_points(s.weight.data() + c * kTaps * kBlock, /*flip=*/false, weight.data() + c * kBlock,
                         kWeightPitch);
    }
    for (std::int64_t f = 0; f < kPoints; ++f) {
      w.product({.a = points.data() + f * kStrip * kChannels,
                 .a_pitch = kChannels,
                 .b = weight.data() + f * kWeightPitch,
                 .b_pitch = kBlock,
                 .c = products.data() + f * kStrip * kBlock,
                 .c_pitch = kBlock,
                 .rows = kStrip,
                 .cols = kBlock,
                 .depth = kChannels,
                 .accumulate = false});
    }
    w.points_to_output(patch_of(kOut, kBlock), {products.data(), kStrip * kBlock, kPanel}, nullptr, nullptr,
                       y.data());
    expect_close(y, expected, 1e-6);
  }
}

TEST(WinogradNumericsTest, WeightGradientIsTheCorrelation) {
  const Square s;
  std::vector<double> expected(kChannels * kTaps * kBlock);
  for (std::int64_t c = 0; c < kChannels; ++c) {
    for (int t = 0; t < kTaps; ++t) {
      for (int p = 0; p < kOut * kOut; ++p) {
        for (std::int64_t n = 0; n < kBlock; ++n) {
          expected[static_cast<std::size_t>((c * kTaps + t) * kBlock + n)] +=
              s.at(p / kOut, p % kOut, t, c) * s.dy[static_cast<std::size_t>(p * kBlock + n)];
        }
      }
    }
  }
  for (const Numerics* const* table = supported_numerics(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->isa);
    const WinogradNumerics& w = *(*table)->winograd;
    // In panels. The second of two squares is zero.
    Floats inputs(kPoints * kPitch), outputs(kPoints * kPitch), sums(kPoints * kWeightPitch, NAN);
    Floats gradient(expected.size());
    w.input_to_points(patch_of(kIn, kChannels), s.x.data(), {inputs.data(), kPitch, kStrip * kPanel});
    w.output_gradient_to_points(patch_of(kOut, kBlock), s.dy.data(),
                                {outputs.data(), kPitch, kStrip * kPanel});
    for (std::int64_t f = 0; f < kPoints; ++f) {
      for (std::int64_t c = 0; c < kChannels; c += kPanel) {
        w.product_of_columns({.a = inputs.data() + f * kPitch + c * kStrip,
                              .a_pitch = kPanel,
                              .b = outputs.data() + f * kPitch,
                              .b_pitch = kPanel,
                              .c = sums.data() + f * kWeightPitch + c * kBlock,
                              .c_pitch = kBlock,
                              .rows = kChannels - c < kPanel ? kChannels - c : kPanel,
                              .cols = kBlock,
                              .depth = 2,
                              .accumulate = false});
      }
    }
    for (std::int64_t c = 0; c < kChannels; ++c) {
      w.points_to_weight(sums.data() + c * kBlock, kWeightPitch, gradient.data() + c * kTaps * kBlock);
    }
    expect_close(gradient, expected, 2e-6);
  }
}

}  // namespace
}  // namespace trireme::cpu

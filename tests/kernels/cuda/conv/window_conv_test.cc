// Compares tiles of windows with gathered windows for convolutions of few channels
// ([Note: windows on tensor cores]), and tests the emulated instruction.
#include <cuda_runtime.h>
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/product_workspace.h"
#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr DType kTypes[] = {DType::kFloat16, DType::kBFloat16};

class WindowConv : public ::testing::Test {
 protected:
  ~WindowConv() override {
    emulation::compute_capability() = 90;
    emulation::set_order(emulation::Order::kForward);
  }

  struct Problem {
    Shape x, weight;
    ConvGeometry geometry;
    Shape y() const {
      const auto extent = [&](std::size_t image, std::size_t kernel) {
        return (x[image] + 2 * geometry.padding - weight[kernel]) / geometry.stride + 1;
      };
      return {x[0], extent(1, 2), extent(2, 3), weight[0]};
    }
  };

  // Small integers, whose sums are exact in fp32.
  static std::vector<float> numbers(const Shape& shape, int seed) {
    std::vector<float> made;
    for (std::int64_t i = 0; i < shape.num_elems(); ++i) {
      made.push_back(static_cast<float>((i * i + 7 * i + seed) % 7 - 3));
    }
    return made;
  }

  // y, with and without a bias, and the weight gradient, accumulated.
  static Outputs run(const Problem& p, DType dtype, std::vector<float> images = {}) {
    const Rig rig(DeviceType::kCuda, 1);
    if (images.empty()) images = numbers(p.x, 1);
    const DeviceArray x = rig.upload(p.x, images, dtype),
                      w = rig.upload(p.weight, numbers(p.weight, 2), dtype),
                      bias = rig.upload({p.weight[0]}, numbers({p.weight[0]}, 3), dtype),
                      dy = rig.upload(p.y(), numbers(p.y(), 4), dtype);
    const DeviceArray y = rig.poisoned(p.y(), dtype), with_bias = rig.poisoned(p.y(), dtype),
                      dw = rig.upload(p.weight, numbers(p.weight, 5));
    rig.run(Conv2dFwdArgs{.x = x, .weight = w, .y = y, .geometry = p.geometry});
    rig.run(Conv2dFwdArgs{.x = x, .weight = w, .bias = bias, .y = with_bias, .geometry = p.geometry});
    rig.run(Conv2dBwdWeightArgs{
        .dy = dy, .x = x, .dweight = dw, .geometry = p.geometry, .mode = GradientMode::kAccumulate});
    return {y.download(), with_bias.download(), dw.download()};
  }
};

// Windows that begin at even and at odd elements, rows with even and odd numbers of factors, several tiles of
// outputs and pixels cut by every edge, and outputs written one at a time.
TEST_F(WindowConv, TilesAreGatheredWindows) {
  const Problem problems[] = {{{2, 33, 70, 3}, {72, 3, 7, 7}, {.stride = 2, .padding = 3}},
                              {{3, 17, 33, 3}, {70, 3, 3, 3}, {.stride = 1, .padding = 1}},
                              {{2, 19, 21, 4}, {8, 4, 5, 4}, {.stride = 1, .padding = 2}},
                              {{1, 12, 9, 1}, {3, 1, 2, 3}, {.stride = 3}}};
  for (const Problem& p : problems) {
    for (const DType dtype : kTypes) {
      ASSERT_TRUE(takes_window_tiles(p.weight, p.geometry, dtype));
      emulation::compute_capability() = 75;
      const Outputs gathered = run(p, dtype);
      emulation::compute_capability() = 80;
      for (const auto order : {emulation::Order::kForward, emulation::Order::kShuffled}) {
        emulation::set_order(order);
        const Outputs tiles = run(p, dtype);
        for (std::size_t i = 0; i < tiles.size(); ++i) {
          EXPECT_TRUE(same_bits(tiles[i], gathered[i])) << i << " of " << p.x.to_string();
        }
      }
      emulation::set_order(emulation::Order::kForward);
    }
  }
}

// More tiles than blocks, so a block sums several tiles.
TEST_F(WindowConv, ManyTilesAreSummed) {
  const Problem p{{1000, 8, 16, 1}, {8, 1, 1, 2}, {.stride = 1}};
  ASSERT_GT(p.x[0], WindowTiles::kGradientBlocks);
  const Rig rig(DeviceType::kCuda, 1);
  const auto ones = [&](const Shape& shape) {
    return rig.upload(shape, std::vector<float>(static_cast<std::size_t>(shape.num_elems()), 1.0f),
                      DType::kFloat16);
  };
  const DeviceArray x = ones(p.x), dy = ones(p.y()), dw = rig.poisoned(p.weight);
  rig.run(Conv2dBwdWeightArgs{.dy = dy, .x = x, .dweight = dw, .geometry = p.geometry});
  EXPECT_THAT(dw.download(), ::testing::Each(1000.0f * 8 * 15));
}

// A row of 9 factors is read as 10, and the last pixels of a tile may not be outputs.
TEST_F(WindowConv, WhatIsNoFactorOfAWindowMayBeInfinite) {
  const Problem p{{1, 5, 19, 3}, {8, 3, 3, 3}, {.stride = 1, .padding = 1}};
  for (const DType dtype : kTypes) {
    for (const float value :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> images = numbers(p.x, 1);
      constexpr std::int64_t kColumn = 7;
      images[kColumn * 3] = value;  // in the first row
      const std::vector<float> y = run(p, dtype, images)[0];
      for (std::int64_t i = 0; i < p.y()[1]; ++i) {
        for (std::int64_t j = 0; j < p.y()[2]; ++j) {
          const bool sees = i <= 1 && std::abs(j - kColumn) <= 1;
          EXPECT_EQ(std::isfinite(y[static_cast<std::size_t>((i * p.y()[2] + j) * 8)]), !sees)
              << i << ", " << j;
        }
      }
    }
    // Without padding, the outputs of a row end before its tile does.
    const Problem cut{{1, 8, 19, 3}, {8, 3, 1, 4}, {.stride = 1}};
    std::vector<float> images = numbers(cut.x, 1);
    images.back() = std::numeric_limits<float>::infinity();
    const std::vector<float> dw = run(cut, dtype, images)[2];
    for (std::size_t i = 0; i < dw.size(); ++i) {
      EXPECT_EQ(std::isfinite(dw[i]), i % 12 != 11)
          << i;  // [8, 3, 1, 4]: the last channel of the last column
    }
  }
}

TEST_F(WindowConv, ManyFactorsAreGathered) {
  EXPECT_FALSE(takes_window_tiles({8, 7, 7, 7}, {.stride = 1, .padding = 3}, DType::kFloat16)) << "factors";
  EXPECT_FALSE(takes_window_tiles({8, 3, 3, 3}, {.stride = 40, .padding = 1}, DType::kFloat16)) << "patches";
  EXPECT_FALSE(takes_window_tiles({8, 3, 3, 3}, {.stride = 1, .padding = 1}, DType::kFloat32));
  EXPECT_FALSE(takes_window_tiles({8, 8, 3, 3}, {.stride = 1, .padding = 1}, DType::kFloat16)) << "channels";
}

constexpr int kRows = 16, kCols = 8, kDepth = 16;

struct SixteenBitProblem {
  std::uint16_t a[kRows][kDepth], b[kDepth][kCols];
  float d[kRows][kCols];
  bool is_half;
};

// Fragments numbered as in the PTX ISA: groupID = lane / 4, threadID_in_group = lane % 4.
void mma_kernel(SixteenBitProblem* p) {
  const unsigned group = threadIdx.x / 4, thread = threadIdx.x % 4;
  std::uint32_t a[4], b[2];
  float d[4];
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = i == 0 || i == 2 ? group : group + 8, col = 2 * thread + (i < 2 ? 0 : 8);
    a[i] = p->a[row][col] | static_cast<std::uint32_t>(p->a[row][col + 1]) << 16;
  }
  for (unsigned i = 0; i < 2; ++i) {
    const unsigned row = 2 * thread + 8 * i;
    b[i] = p->b[row][group] | static_cast<std::uint32_t>(p->b[row + 1][group]) << 16;
  }
  const auto result = [&](unsigned i) -> float& {
    return p->d[i < 2 ? group : group + 8][2 * thread + (i & 1)];
  };
  for (unsigned i = 0; i < 4; ++i) d[i] = result(i);
  emulated_mma_16_bit(d, a, b, p->is_half);
  for (unsigned i = 0; i < 4; ++i) result(i) = d[i];
}

TEST(EmulatedSixteenBitMma, MultipliesAndAdds) {
  for (const DType dtype : kTypes) {
    const bool is_half = dtype == DType::kFloat16;
    const auto bits = [&](float x) {  // for values that both types hold
      const std::uint32_t word = std::bit_cast<std::uint32_t>(x);
      if (!is_half) return static_cast<std::uint16_t>(word >> 16);
      if (x == 0.0f) return std::uint16_t{0};
      return static_cast<std::uint16_t>((word >> 16 & 0x8000) | ((word >> 23 & 0xff) - 112) << 10 |
                                        (word >> 13 & 0x3ff));
    };
    SixteenBitProblem problem{};
    problem.is_half = is_half;
    float a[kRows][kDepth], b[kDepth][kCols];
    for (int i = 0; i < kRows * kDepth; ++i) {
      a[i / kDepth][i % kDepth] = 0.25f * static_cast<float>(i % 11 - 5);
      problem.a[i / kDepth][i % kDepth] = bits(a[i / kDepth][i % kDepth]);
    }
    for (int i = 0; i < kDepth * kCols; ++i) {
      b[i / kCols][i % kCols] = static_cast<float>(i % 7 - 3);
      problem.b[i / kCols][i % kCols] = bits(b[i / kCols][i % kCols]);
    }
    for (int i = 0; i < kRows * kCols; ++i) problem.d[i / kCols][i % kCols] = static_cast<float>(i);
    const SixteenBitProblem before = problem;
    const cudaLaunchConfig_t config{.gridDim = 1, .blockDim = 32};
    ASSERT_EQ(cudaLaunchKernelEx(&config, mma_kernel, &problem), cudaSuccess);
    for (int row = 0; row < kRows; ++row) {
      for (int col = 0; col < kCols; ++col) {
        float sum = before.d[row][col];
        for (int k = 0; k < kDepth; ++k) sum += a[row][k] * b[k][col];
        EXPECT_EQ(problem.d[row][col], sum) << row << ", " << col;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::testing

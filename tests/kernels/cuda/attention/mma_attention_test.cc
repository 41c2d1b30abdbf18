// fp32 attention on cards with and without tensor cores, and the emulated instruction.
#include <cuda_runtime.h>
#include <gmock/gmock.h>

#include <bit>
#include <cmath>

#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/kernels/kernel_test.h"
#include "tests/support/sanitized.h"

namespace trireme::testing {
namespace {

constexpr int kRows = 16, kCols = 8, kDepth = 8;

struct MmaProblem {
  float a[kRows][kDepth], b[kDepth][kCols], d[kRows][kCols];
};

// Fragments numbered as in the PTX ISA: groupID = lane / 4, threadID_in_group = lane % 4.
void mma_kernel(MmaProblem* problem) {
  const unsigned group = threadIdx.x / 4, thread = threadIdx.x % 4;
  std::uint32_t a[4], b[2];
  float d[4];
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = i == 0 || i == 2 ? group : group + 8, col = i < 2 ? thread : thread + 4;
    a[i] = std::bit_cast<std::uint32_t>(problem->a[row][col]);
  }
  for (unsigned i = 0; i < 2; ++i) b[i] = std::bit_cast<std::uint32_t>(problem->b[thread + 4 * i][group]);
  const auto result = [&](unsigned i) -> float& {
    return problem->d[i < 2 ? group : group + 8][2 * thread + (i & 1)];
  };
  for (unsigned i = 0; i < 4; ++i) d[i] = result(i);
  emulated_mma_tf32(d, a, b);
  for (unsigned i = 0; i < 4; ++i) result(i) = d[i];
}

void run_mma(MmaProblem& problem) {
  const cudaLaunchConfig_t config{.gridDim = 1, .blockDim = 32};
  ASSERT_EQ(cudaLaunchKernelEx(&config, mma_kernel, &problem), cudaSuccess);
}

TEST(EmulatedMma, MultipliesAndAdds) {
  MmaProblem problem{};
  for (int i = 0; i < kRows * kDepth; ++i) problem.a[i / kDepth][i % kDepth] = static_cast<float>(i % 11 - 5);
  for (int i = 0; i < kDepth * kCols; ++i) problem.b[i / kCols][i % kCols] = static_cast<float>(i % 7 - 3);
  for (int i = 0; i < kRows * kCols; ++i) problem.d[i / kCols][i % kCols] = static_cast<float>(i);
  const MmaProblem before = problem;
  run_mma(problem);
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < kCols; ++col) {
      float sum = before.d[row][col];
      for (int k = 0; k < kDepth; ++k) sum += before.a[row][k] * before.b[k][col];
      EXPECT_EQ(problem.d[row][col], sum) << row << ", " << col;
    }
  }
}

// A kernel that forgets to round a factor, or sums too much in the instruction, gets another result here.
TEST(EmulatedMma, ReadsTenBitsOfMantissaAndCutsOffSums) {
  MmaProblem problem{};
  problem.a[0][0] = problem.a[1][0] = 1.0f + 0x1p-10f + 0x1p-11f;
  problem.b[0][0] = 1.0f;
  problem.d[1][0] = 0x1p+15f;
  problem.a[2][0] = -0x1p-30f;
  problem.d[2][0] = 1.0f;
  run_mma(problem);
  EXPECT_EQ(problem.d[0][0], 1.0f + 0x1p-10f);
  EXPECT_EQ(problem.d[1][0], 0x1p+15f + 1.0f);
  EXPECT_EQ(problem.d[2][0], 1.0f - 0x1p-24f);
}

class MmaAttention : public ::testing::Test {
 protected:
  ~MmaAttention() override {
    emulation::compute_capability() = 90;
    emulation::set_order(emulation::Order::kForward);
  }

  // Output, lse and gradients of two grouped heads each, with documents, over several tiles.
  static Outputs run(const Rig& rig, MathMode math, std::int64_t head_dim = 40, float dropout_p = 0.0f,
                     DType dtype = DType::kFloat32) {
    const std::int64_t samples = 2, seq_len = 150, heads = 4, kv_heads = 2;
    std::vector<float> values;
    for (std::int64_t i = 0; i < samples * seq_len * (heads + 2 * kv_heads) * head_dim; ++i) {
      values.push_back(std::sin(static_cast<float>(i * i % 10007)));
    }
    std::vector<std::int32_t> bounds;
    for (std::int64_t t = 0; t < samples * seq_len; ++t) {
      const bool second = t % seq_len >= 90;
      bounds.push_back(second ? 90 : 0);
      bounds.push_back(second ? 150 : 90);
    }
    const DeviceArray qkv = rig.upload({samples, seq_len, (heads + 2 * kv_heads) * head_dim}, values, dtype);
    values.resize(static_cast<std::size_t>(samples * seq_len * heads * head_dim));
    const DeviceArray dout = rig.upload({samples, seq_len, heads * head_dim}, values, dtype),
                      key_bounds = rig.upload({samples, seq_len, 2}, bounds);
    const DeviceArray out = rig.poisoned(dout.view().shape, dtype),
                      dqkv = rig.poisoned(qkv.view().shape, dtype),
                      lse = rig.poisoned({samples, heads, seq_len});
    const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    rig.run(AttentionFwdArgs{.qkv = qkv,
                             .out = out,
                             .lse = lse,
                             .num_heads = static_cast<int>(heads),
                             .num_kv_heads = static_cast<int>(kv_heads),
                             .scale = scale,
                             .math = math,
                             .dropout_p = dropout_p,
                             .key_bounds = key_bounds});
    rig.run(AttentionBwdArgs{.dout = dout,
                             .qkv = qkv,
                             .out = out,
                             .lse = lse,
                             .dqkv = dqkv,
                             .num_heads = static_cast<int>(heads),
                             .num_kv_heads = static_cast<int>(kv_heads),
                             .scale = scale,
                             .math = math,
                             .dropout_p = dropout_p,
                             .key_bounds = key_bounds});
    return {out.download(), lse.download(), dqkv.download()};
  }

  static double error(const std::vector<float>& actual, const std::vector<float>& expected) {
    return relative_error(actual, {expected.begin(), expected.end()});
  }
};

// Three products for one are as accurate as fp32. One product is as accurate as tf32, and no better.
TEST_F(MmaAttention, CardsBeforeSm80RunThePlainKernel) {
  for (const auto& [head_dim, dropout] : {std::pair(40, 0.0f), std::pair(8, 0.2f), std::pair(80, 0.1f)}) {
    emulation::compute_capability() = 90;
    const Outputs fp32 = run(Rig(DeviceType::kCuda, 1), MathMode::kFp32, head_dim, dropout),
                  tf32 = run(Rig(DeviceType::kCuda, 1), MathMode::kTf32, head_dim, dropout);
    emulation::compute_capability() = 75;
    const Outputs plain = run(Rig(DeviceType::kCuda, 1), MathMode::kFp32, head_dim, dropout);
    EXPECT_TRUE(same_bits(run(Rig(DeviceType::kCuda, 1), MathMode::kTf32, head_dim, dropout)[2], plain[2]));
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_FALSE(same_bits(fp32[i], plain[i])) << i;
      EXPECT_LT(error(fp32[i], plain[i]), 2e-6) << i;
      EXPECT_LT(error(tf32[i], plain[i]), 1e-3) << i;
      EXPECT_GT(error(tf32[i], plain[i]), 5e-6) << i;
    }
  }
}

// The factors are exact. Probabilities and score gradients are rounded at most as much as in the library.
TEST_F(MmaAttention, SixteenBitsRunOnTensorCoresToo) {
  for (const auto& [dtype, roundoff] :
       {std::pair(DType::kFloat16, 0x1p-11), std::pair(DType::kBFloat16, 0x1p-8)}) {
    emulation::compute_capability() = 90;
    const Outputs outputs = run(Rig(DeviceType::kCuda, 1), MathMode::kFp32, 40, 0.0f, dtype);
    emulation::compute_capability() = 75;
    const Outputs plain = run(Rig(DeviceType::kCuda, 1), MathMode::kFp32, 40, 0.0f, dtype);
    EXPECT_FALSE(same_bits(outputs[0], plain[0]));
    EXPECT_LT(error(outputs[0], plain[0]), roundoff);
    EXPECT_LT(error(outputs[1], plain[1]), 2e-6);
    EXPECT_FALSE(same_bits(outputs[2], plain[2]));
    EXPECT_LT(error(outputs[2], plain[2]), 2 * roundoff);
  }
}

TEST_F(MmaAttention, WhatHasNoTensorCoresIsSaidOnce) {
  const auto said_by = [](const Rig& rig) {
    ::testing::internal::CaptureStdout();
    run(rig, MathMode::kFp32, 8);
    run(rig, MathMode::kFp32, 8);
    return ::testing::internal::GetCapturedStdout();
  };
  const char* const kSaid = "no library takes fp32 attention without tensor cores of sm_80";
  EXPECT_THAT(said_by(Rig(DeviceType::kCuda, 1)), ::testing::Not(::testing::HasSubstr(kSaid)));
  emulation::compute_capability() = 75;
  const std::string said = said_by(Rig(DeviceType::kCuda, 1));
  ASSERT_THAT(said, ::testing::HasSubstr(kSaid));
  EXPECT_EQ(said.find(kSaid), said.rfind(kSaid));
}

// A missing barrier would change the bits.
TEST_F(MmaAttention, TheOrderOfThreadsDoesNotMatter) {
  for (const auto& [head_dim, dropout] :
       sampled(std::array{std::pair(20, 0.5f), std::pair(64, 0.0f), std::pair(136, 0.0f)}, 3)) {
    emulation::set_order(emulation::Order::kForward);
    const Outputs expected = run(Rig(DeviceType::kCuda, 1), MathMode::kFp32, head_dim, dropout);
    for (const emulation::Order order : {emulation::Order::kReverse, emulation::Order::kShuffled}) {
      emulation::set_order(order);
      const Outputs outputs = run(Rig(DeviceType::kCuda, 1), MathMode::kFp32, head_dim, dropout);
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_bits(outputs[i], expected[i])) << i;
    }
  }
}

}  // namespace
}  // namespace trireme::testing

#include "parallel/foresee/op_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/support/small_cluster.h"

namespace trireme {
namespace {

class OpTime : public ::testing::Test {
 protected:
  OpTime() {
    cluster_.host.launch_us = 3;
    cluster_.framework.memory_efficiency = 0.5;
    device().memory_gb_s = 1000;
    device().peak_tflops = {{"fp32", 10}, {"bf16", 100}};
    device().matmul_efficiency = 0.8;
  }
  ClusterDevice& device() { return cluster_.devices[0]; }
  double us(const OpShape& shape) { return 1e6 * OpTimes(cluster_, device()).seconds(shape); }
  static OpShape pass(double bytes) { return {.op = "add", .cost = {.bytes = bytes}}; }
  static OpShape product(double m, double n, double k) {
    return {.op = "matmul",
            .dtype = DType::kBFloat16,
            .cost = {.bytes = 2 * (m * k + k * n + m * n),
                     .operations = 2 * m * n * k,
                     .arithmetic = Arithmetic::kSixteenBit},
            .m = m,
            .n = n,
            .k = k};
  }

  Cluster cluster_ = testing::small_cluster();
};

TEST_F(OpTime, APassIsALaunchAndItsBytes) {
  EXPECT_NEAR(us(pass(1e6)), 3 + 1e6 / (0.5 * 1000e9) * 1e6, 1e-9);
}

TEST_F(OpTime, AProductLosesRateWhereADimIsSmall) {
  const double ramp_us = cluster_.framework.ramp_gflop * 1e9 / 100e12 * 1e6;
  const auto share = [&](double dim) { return dim / (dim + cluster_.framework.half_dim); };
  const double rate = 100e12 * 0.8 * share(4096) * share(4096) * share(4096);
  EXPECT_NEAR(us(product(4096, 4096, 4096)), 3 + 2 * std::pow(4096, 3) / rate * 1e6 + ramp_us, 1e-6);
  EXPECT_GT(us(product(64, 4096, 4096)), us(product(4096, 4096, 4096)) / 64);
}

TEST_F(OpTime, Fp8ReachesLessOfItsPeak) {
  device().peak_tflops["fp8"] = 100;
  cluster_.framework.fp8_efficiency = 0.5;
  OpShape fp8 = product(4096, 4096, 4096);
  fp8.cost.arithmetic = Arithmetic::kFp8;
  EXPECT_NEAR(us(fp8) - 3, 2 * (us(product(4096, 4096, 4096)) - 3), 1e-6);
}

TEST_F(OpTime, AMeasuredCallHasItsTime) {
  device().measured["add fp32"] = {{1e4, 0, 7}, {1e6, 0, 50}};
  EXPECT_NEAR(us(pass(1e4)), 7, 1e-3);
  EXPECT_NEAR(us(pass(1e6)), 50, 1e-3);
  EXPECT_GT(us(pass(1e5)), 7);
  EXPECT_LT(us(pass(1e5)), 50);
  const OpShape mine = product(64, 64, 64);
  device().measured["matmul bf16 NN"] = {{mine.cost.bytes, mine.cost.operations, 123}};
  EXPECT_NEAR(us(mine), 123, 1e-3);
  EXPECT_GT(us(product(512, 512, 512)), 123);
}

// Attention over the same bytes with half the width of a head takes twice as long, say.
TEST_F(OpTime, CallsWithTheSameInnerExtentCountMost) {
  const auto attention = [](double inner) {
    return OpShape{.op = "attention_fwd", .cost = {.bytes = 1e6}, .inner = inner};
  };
  device().measured["attention_fwd fp32"] = {{1e6, 0, 80, 64}, {1e6, 0, 40, 128}};
  EXPECT_NEAR(us(attention(64)), 80, 0.1);
  EXPECT_NEAR(us(attention(128)), 40, 0.1);
  EXPECT_GT(us(attention(80)), 56.6);
  EXPECT_LT(us(attention(112)), 56.5);
}

TEST_F(OpTime, TheInnerExtentOfAttentionIsTheWidthOfItsHeads) {
  float memory = 0;
  const TensorView qkv{&memory, DType::kBFloat16, {2, 16, 3 * 96}},
      out{&memory, DType::kBFloat16, {2, 16, 96}};
  const TensorView lse{&memory, DType::kFloat32, {2, 3, 16}};
  EXPECT_EQ(shape_of(AttentionFwdArgs{.qkv = qkv, .out = out, .lse = lse, .num_heads = 3}).inner, 32);
  EXPECT_EQ(shape_of(MatmulArgs{.a = qkv, .b = qkv, .d = out, .transpose_b = Transpose::kYes}).inner, 16);
}

TEST_F(OpTime, KernelsOfAProductAreThoseOfItsTransposes) {
  OpShape shape = product(8, 8, 8);
  EXPECT_EQ(kernel_of(shape), "matmul bf16 NN");
  shape.transpose_b = shape.activates = true;
  EXPECT_EQ(kernel_of(shape), "matmul bf16 NT activation");
  shape = pass(8);
  EXPECT_EQ(kernel_of(shape), "add fp32");
}

TEST_F(OpTime, ADtypeWithoutAPeakIsNamed) {
  OpShape shape = product(8, 8, 8);
  shape.dtype = DType::kFloat16;
  EXPECT_THAT([&] { us(shape); }, ::testing::ThrowsMessage<Error>(::testing::HasSubstr("peak_tflops.fp16")));
}

}  // namespace
}  // namespace trireme

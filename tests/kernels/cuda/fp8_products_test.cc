// fp8 products on cards without fp8 support, and where cuBLASLt has no algorithm: see [Note: fp8 products].
#include <gmock/gmock.h>

#include "kernels/product_workspace.h"
#include "runtime/base/error.h"
#include "runtime/base/fp8.h"
#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

class Fp8Products : public ::testing::Test {
 protected:
  ~Fp8Products() override {
    emulation::product_refusals() = {};
    emulation::compute_capability() = 90;
  }

  // Small integers, so that e4m3 and every order of summation are exact.
  static std::vector<float> product(const Rig& rig, std::int64_t m, std::int64_t n, std::int64_t k) {
    const auto operand = [&](std::int64_t rows, std::int64_t cols, int period, const DeviceArray& codes,
                             const DeviceArray& scale) {
      std::vector<float> values;
      for (std::int64_t i = 0; i < rows * cols; ++i) values.push_back(static_cast<float>(i % period) - 1.0f);
      rig.run(QuantizeArgs{.x = rig.upload({rows, cols}, values),
                           .out = {.codes = codes, .inverse_scale = scale}});
    };
    const Shape a_shape{m, k}, b_shape{n, k};
    const DeviceArray a = rig.poisoned(a_shape, DType::kE5m2), b = rig.poisoned(b_shape, DType::kE4m3);
    const DeviceArray a_scale = rig.poisoned({}), b_scale = rig.poisoned({}), d = rig.poisoned({m, n});
    operand(a_shape[0], a_shape[1], 5, a, a_scale);
    operand(b_shape[0], b_shape[1], 7, b, b_scale);
    rig.run(MatmulArgs{.a = a,
                       .b = b,
                       .d = d,
                       .transpose_b = Transpose::kYes,
                       .a_inverse_scale = a_scale,
                       .b_inverse_scale = b_scale});
    return d.download();
  }
};

TEST_F(Fp8Products, WhatTheLibraryRefusesRunsInBf16WithTheSameResult) {
  const Rig cuda(DeviceType::kCuda, 1), cpu(DeviceType::kCpu, 1);
  const auto expected = product(cpu, 48, 32, 64);
  EXPECT_TRUE(same_bits(product(cuda, 48, 32, 64), expected));
  EXPECT_TRUE(same_bits(product(cuda, 40, 23, 36), product(cpu, 40, 23, 36)));
  emulation::product_refusals() = {.plain = 100, .fused = 100};
  const Rig refused(DeviceType::kCuda, 1);
  EXPECT_TRUE(same_bits(product(refused, 48, 32, 64), expected));
}

TEST_F(Fp8Products, OperandsThatDoNotRunAlongKAreRefused) {
  for (const DeviceType type : {DeviceType::kCpu, DeviceType::kCuda}) {
    const Rig rig(type, 1);
    const DeviceArray codes = rig.poisoned({16, 16}, DType::kE4m3), d = rig.poisoned({16, 16});
    const DeviceArray scale = rig.upload(Shape{}, std::vector<float>{1.0f});
    MatmulArgs args{.a = codes, .b = codes, .d = d, .a_inverse_scale = scale, .b_inverse_scale = scale};
    EXPECT_THROW(rig.run(args), Error);
    args.transpose_a = args.transpose_b = Transpose::kYes;
    EXPECT_THROW(rig.run(args), Error);
  }
}

TEST_F(Fp8Products, ExtentsThatTheLibraryDoesNotTakeAreNamedOnce) {
  const Rig rig(DeviceType::kCuda, 1);
  ::testing::internal::CaptureStdout();
  for (int i = 0; i < 2; ++i) {
    product(rig, 48, 32, 64);
    product(rig, 40, 23, 36);
  }
  const std::string said = ::testing::internal::GetCapturedStdout();
  const char* problem =
      "cuda: no library takes matmul of [40 x 23 x 36], e5m2 to fp32, extents that are no "
      "multiples of 16; it runs in bf16";
  EXPECT_NE(said.find(problem), std::string::npos) << said;
  EXPECT_EQ(said.find("no library takes"), said.rfind("no library takes")) << said;
}

// The predicted workspace of a product equals the allocated one, without the library's own.
TEST_F(Fp8Products, WorkspaceIsThePredictedOne) {
  const Rig rig(DeviceType::kCuda, 1);
  const auto expect_as_predicted = [&](const MatmulArgs& args, std::int64_t least) {
    rig.run(args);  // the library allocates its own
    rig.allocator().reset_peak();
    const std::int64_t before = rig.allocator().stats().current[MemoryCategory::kWorkspace];
    rig.run(args);
    const std::int64_t taken = rig.allocator().stats().peak[MemoryCategory::kWorkspace] - before;
    EXPECT_EQ(taken, matmul_workspace(args));
    EXPECT_GE(taken, least);
  };
  const DeviceArray scale = rig.upload(Shape{}, std::vector<float>{1.0f});
  for (const std::int64_t k : {64, 36}) {
    const std::int64_t m = 48, n = 32, decoded = k == 36 ? 2 * (m + n) * k : 0;
    const DeviceArray a = rig.poisoned({m, k}, DType::kE4m3), b = rig.poisoned({n, k}, DType::kE4m3);
    const DeviceArray d = rig.poisoned({m, n}, DType::kBFloat16),
                      pre = rig.poisoned({m, n}, DType::kBFloat16), gradient = rig.poisoned({m, n});
    MatmulArgs args{.a = a, .b = b, .d = d, .transpose_b = Transpose::kYes};
    args.a_inverse_scale = args.b_inverse_scale = scale;
    expect_as_predicted(args, decoded);
    args.activation = Activation::kGeluTanh;
    args.pre_activation = pre;
    expect_as_predicted(args, decoded + 4 * m * n);
    expect_as_predicted({.a = a,
                         .b = b,
                         .d = gradient,
                         .transpose_b = Transpose::kYes,
                         .mode = GradientMode::kAccumulate,
                         .a_inverse_scale = scale,
                         .b_inverse_scale = scale},
                        decoded);
  }
  // bf16. The library computes the activation unless another step follows it.
  const DeviceArray a = rig.poisoned({48, 64}, DType::kBFloat16),
                    b = rig.poisoned({64, 32}, DType::kBFloat16),
                    d = rig.poisoned({48, 32}, DType::kBFloat16);
  MatmulArgs args{.a = a, .b = b, .d = d, .activation = Activation::kGeluTanh};
  expect_as_predicted(args, 0);
  EXPECT_EQ(matmul_workspace(args), 0);
  args.residual = d;
  expect_as_predicted(args, 4 * 48 * 32);
}

TEST_F(Fp8Products, CardsBeforeAdaAreRefusedByName) {
  emulation::compute_capability() = 80;
  const Rig rig(DeviceType::kCuda, 1);
  try {
    product(rig, 16, 16, 16);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
    EXPECT_STREQ(
        e.what(),
        "matmul on cuda: fp8 needs a card of sm_89 (Ada), sm_90 (Hopper) or later; device 0 is sm_80");
  }
}

}  // namespace
}  // namespace trireme::testing

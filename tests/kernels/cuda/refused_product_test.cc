// Products that cuBLASLt proposes and then refuses to run: see [Note: refused products].
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/error.h"
#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

class RefusedProductTest : public ::testing::Test {
 protected:
  ~RefusedProductTest() override { emulation::product_refusals() = {}; }

  // Small integers, so that every order of summation has the same bits, in 16 bits too.
  static std::vector<float> counted(std::int64_t n, int period) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(i % period) - 1.0f);
    return values;
  }

  // Runs plain products in each transposition, one with a bias, one with a separate residual, one with the
  // residual in d, one with an activation, and an accumulated gradient.
  static Outputs products(const Rig& rig, DType in, DType out) {
    const std::int64_t m = 70, n = 72, k = 24;
    const DeviceArray a = rig.upload({m, k}, counted(m * k, 3), in),
                      b = rig.upload({k, n}, counted(k * n, 4), in);
    const DeviceArray at = rig.upload({k, m}, counted(m * k, 5), in),
                      bt = rig.upload({n, k}, counted(k * n, 3), in);
    const DeviceArray bias = rig.upload({n}, counted(n, 7), out),
                      residual = rig.upload({m, n}, counted(m * n, 5), out);
    Outputs all;
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const DeviceArray d = rig.poisoned({m, n}, out);
        rig.run(MatmulArgs{.a = ta ? at : a,
                           .b = tb ? bt : b,
                           .d = d,
                           .transpose_a = ta ? Transpose::kYes : Transpose::kNo,
                           .transpose_b = tb ? Transpose::kYes : Transpose::kNo});
        all.push_back(d.download());
      }
    }
    const DeviceArray d = rig.poisoned({m, n}, out), pre = rig.poisoned({m, n}, out);
    rig.run(MatmulArgs{.a = a, .b = b, .d = d, .bias = bias});
    all.push_back(d.download());
    rig.run(MatmulArgs{.a = a, .b = b, .d = d, .bias = bias, .residual = residual});
    all.push_back(d.download());
    rig.run(MatmulArgs{.a = a, .b = b, .d = d, .residual = d});
    all.push_back(d.download());
    rig.run(MatmulArgs{
        .a = at, .b = b, .d = d, .transpose_a = Transpose::kYes, .mode = GradientMode::kAccumulate});
    all.push_back(d.download());
    rig.run(MatmulArgs{
        .a = a, .b = b, .d = d, .bias = bias, .activation = Activation::kGeluTanh, .pre_activation = pre});
    all.push_back(pre.download());
    all.push_back(d.download());
    return all;
  }

  static void expect_equal(const Outputs& outputs, const Outputs& expected) {
    ASSERT_EQ(outputs.size(), expected.size());
    for (std::size_t i = 0; i + 1 < outputs.size(); ++i) EXPECT_TRUE(same_bits(outputs[i], expected[i])) << i;
    // The library's activation differs from the native one in the last bits.
    for (std::size_t i = 0; i < expected.back().size(); ++i) {
      ASSERT_NEAR(outputs.back()[i], expected.back()[i], 1e-2 * std::abs(expected.back()[i]) + 1e-3);
    }
  }
};

// After a refusal, the next proposals are tried, then product and epilogue separately, then the native
// kernel.
TEST_F(RefusedProductTest, RunOtherwise) {
  constexpr int kAll = emulation::kProposedProducts;
  for (const auto& [in, out] :
       {std::pair(DType::kFloat32, DType::kFloat32), std::pair(DType::kBFloat16, DType::kFloat32),
        std::pair(DType::kBFloat16, DType::kBFloat16)}) {
    emulation::product_refusals() = {};
    const Outputs expected = products(Rig(DeviceType::kCuda, 1), in, out);
    for (const auto& refused :
         {emulation::ProductRefusals{.plain = 1, .fused = 2}, emulation::ProductRefusals{.fused = kAll},
          emulation::ProductRefusals{.plain = kAll, .fused = kAll}}) {
      SCOPED_TRACE(fmt::format("{} to {}: {} and {}", name(in), name(out), refused.plain, refused.fused));
      emulation::product_refusals() = refused;
      const Rig rig(DeviceType::kCuda, 1);
      expect_equal(products(rig, in, out), expected);
      const int once = emulation::product_refusals().count;
      EXPECT_GT(once, 0);
      expect_equal(products(rig, in, out), expected);
      EXPECT_EQ(emulation::product_refusals().count, once) << "a refused algorithm was tried again";
    }
  }
}

// The shape is new in the recorded step.
TEST_F(RefusedProductTest, NoAlgorithmIsChosenInARecordedStep) {
  const Rig rig(DeviceType::kCuda, 1);
  const DeviceArray small = rig.upload({8, 8}, counted(64, 3)), large = rig.upload({16, 8}, counted(128, 3));
  const DeviceArray small_result = rig.poisoned({8, 8}), large_result = rig.poisoned({16, 8});
  const auto known = [&] { rig.run(MatmulArgs{.a = small, .b = small, .d = small_result}); };
  const auto unknown = [&] { rig.run(MatmulArgs{.a = large, .b = small, .d = large_result}); };
  known();
  rig->begin_capture(rig.exec());
  known();
  try {
    unknown();
    ADD_FAILURE() << "chosen in a recorded step";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kRuntime);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("a step is being recorded, and matmul of [16 x 8 x 8]"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("run such a step unrecorded first"));
  }
  rig->end_capture(rig.exec());
  unknown();
}

TEST_F(RefusedProductTest, EachIsSaidOnce) {
  emulation::product_refusals() = {.plain = 2};
  const Rig rig(DeviceType::kCuda, 1);
  const DeviceArray a = rig.upload({8, 8}, counted(64, 3)), d = rig.poisoned({8, 8});
  ::testing::internal::CaptureStdout();
  for (int i = 0; i < 3; ++i) rig.run(MatmulArgs{.a = a, .b = a, .d = d});
  const std::string said = ::testing::internal::GetCapturedStdout();
  int lines = 0;
  for (std::size_t at = 0; (at = said.find("refused to run matmul of [8 x 8 x 8]", at)) != std::string::npos;
       ++at) {
    ++lines;
  }
  EXPECT_EQ(lines, 2) << said;
}

}  // namespace
}  // namespace trireme::testing

// Measured choices among cuBLASLt's algorithms, on the emulation's clock: see [Note: measured products].
#include "kernels/backend_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Times = std::array<double, 4>;  // us per algorithm; the last adds in place

class ProductChoicesTest : public ::testing::Test {
 protected:
  ~ProductChoicesTest() override {
    emulation::product_refusals() = {};
    emulation::product_algorithms().us = {};
    emulation::product_algorithms().in_place_repeats = true;
  }

  static void take(std::function<double(int)> us) { emulation::product_algorithms().us = std::move(us); }
  static void take(const Times& times) {
    take([times](int i) { return times.at(static_cast<std::size_t>(i)); });
  }

  static std::vector<float> values(std::int64_t n) {
    std::vector<float> all;
    for (std::int64_t i = 0; i < n; ++i) all.push_back(static_cast<float>(i % 7) - 3.0f);
    return all;
  }

  // Runs one product and returns the algorithm that ran, or -1.
  static int algorithm_of_a_run(const Rig& rig, DType in = DType::kFloat32, DType out = DType::kFloat32,
                                std::vector<float>* result = nullptr) {
    const DeviceArray a = rig.upload({32, 16}, values(512), in), b = rig.upload({16, 48}, values(768), in),
                      d = rig.poisoned({32, 48}, out);
    const auto product = [&] { rig.run(MatmulArgs{.a = a, .b = b, .d = d}); };
    product();  // plans
    std::array<long, 4> before{};
    for (std::size_t i = 0; i < before.size(); ++i) before.at(i) = emulation::product_algorithms().runs.at(i);
    product();
    if (result != nullptr) *result = d.download();
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (emulation::product_algorithms().runs.at(i) > before.at(i)) return static_cast<int>(i);
    }
    return -1;
  }

  static ProductChoices& choices_of(const Rig& rig) { return rig->product_choices(rig.exec()); }
  static ProductTable measured(DType in = DType::kFloat32, DType out = DType::kFloat32) {
    const Rig rig(DeviceType::kCuda, 1);
    choices_of(rig).measure();
    algorithm_of_a_run(rig, in, out);
    return choices_of(rig).table();
  }
  // The only choice in the table.
  static ProductChoice choice_for(const Times& times, DType in = DType::kFloat32,
                                  DType out = DType::kFloat32) {
    take(times);
    const ProductTable table = measured(in, out);
    EXPECT_EQ(table.size(), 1u);
    return table.empty() ? ProductChoice() : table.begin()->second;
  }
};

TEST_F(ProductChoicesTest, WithoutThemHeuristicsChoose) {
  take({100, 1, 1, 1});
  const Rig rig(DeviceType::kCuda, 1);
  EXPECT_EQ(algorithm_of_a_run(rig), 0);
  EXPECT_TRUE(choices_of(rig).table().empty());
}

TEST_F(ProductChoicesTest, TheFastestIsTakenBeyondTheMargin) {
  EXPECT_EQ(choice_for({200, 150, 120, 500}).candidate, 2);
  EXPECT_EQ(choice_for({200, 195, 500, 500}).candidate, 0) << "2.5 % are less than the margin";
  EXPECT_EQ(choice_for({200, 193, 500, 500}).candidate, 1) << "3.5 % are more";
  const ProductChoice choice = choice_for({200, 150, 120, 500});
  EXPECT_EQ(choice.num_candidates, 4);
  EXPECT_NEAR(choice.us, 120, 1e-3);
  EXPECT_NEAR(choice.first_us, 200, 1e-3);
  EXPECT_EQ(choice.description, "id 2, tile 0, stages 0, splits 1");
}

// The chosen algorithm runs, in the measuring stream too.
TEST_F(ProductChoicesTest, TheChoiceRuns) {
  take({200, 150, 120, 500});
  const Rig rig(DeviceType::kCuda, 1);
  choices_of(rig).measure();
  EXPECT_EQ(algorithm_of_a_run(rig), 2);
}

// An unreliable clock: of seven bursts, one takes ten times as long and another no time.
TEST_F(ProductChoicesTest, TheMedianCounts) {
  std::array<int, 4> runs{};
  take([&runs](int i) {
    const int run = runs.at(static_cast<std::size_t>(i))++;
    const double usual = i == 2 ? 150 : 200;
    if (i == 2 && run == 3) return 10 * usual;
    if (i == 1 && run == 3) return 1.0;
    return usual;
  });
  const ProductTable table = measured();
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table.begin()->second.candidate, 2);
}

TEST_F(ProductChoicesTest, WhatTheLibraryRefusesIsNoCandidate) {
  emulation::product_refusals() = {.plain = 1};
  const ProductChoice choice = choice_for({10, 200, 120, 500});
  EXPECT_EQ(choice.num_candidates, 3);
  EXPECT_NEAR(choice.first_us, 200, 1e-3) << "the first that runs";
  EXPECT_NEAR(choice.us, 120, 1e-3);
}

// Sums of fp32 results may be added in place if that repeats its bits; 16-bit ones would be rounded again.
TEST_F(ProductChoicesTest, SumsInPlace) {
  const Times times{200, 190, 200, 50};
  EXPECT_EQ(choice_for(times).candidate, 3);
  EXPECT_THAT(choice_for(times).description, HasSubstr("splits 4 in place"));
  EXPECT_EQ(choice_for(times, DType::kBFloat16, DType::kFloat32).candidate, 3);
  EXPECT_EQ(choice_for(times, DType::kBFloat16, DType::kBFloat16).candidate, 1);
  emulation::product_algorithms().in_place_repeats = false;
  EXPECT_EQ(choice_for(times).candidate, 1);
}

// A table used in another context, like another rank or process, which measures nothing.
TEST_F(ProductChoicesTest, ATableTravels) {
  take({200, 150, 120, 500});
  const ProductTable table = measured();
  take({100, 1000, 1000, 1000});
  const Rig rig(DeviceType::kCuda, 1), plain(DeviceType::kCuda, 1);
  choices_of(rig).use(table);
  std::vector<float> result, expected;
  const double before = emulation::clock_us();
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(algorithm_of_a_run(rig, DType::kFloat32, DType::kFloat32, &result), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(emulation::clock_us() - before, 2 * 1000) << "two runs";
  EXPECT_EQ(choices_of(rig).table(), table);
  EXPECT_EQ(algorithm_of_a_run(plain, DType::kFloat32, DType::kFloat32, &expected), 0);
  EXPECT_TRUE(same_bits(result, expected));
  // The workspace stays as large as predictions assume.
  EXPECT_EQ(rig.allocator().stats().peak[MemoryCategory::kWorkspace],
            plain.allocator().stats().peak[MemoryCategory::kWorkspace]);
}

TEST_F(ProductChoicesTest, KnownProductsAreNotMeasuredAgain) {
  take({200, 150, 120, 500});
  const ProductTable table = measured();
  take({100, 10, 1000, 1000});
  const Rig rig(DeviceType::kCuda, 1);
  choices_of(rig).use(table);
  choices_of(rig).measure();
  EXPECT_EQ(algorithm_of_a_run(rig), 2);
  EXPECT_EQ(choices_of(rig).table(), table);
  algorithm_of_a_run(rig, DType::kBFloat16, DType::kFloat32);
  EXPECT_EQ(choices_of(rig).table().size(), 2u);
}

TEST_F(ProductChoicesTest, UnnamedProductsGoByTheHeuristicsAndAreSaidOnce) {
  take({200, 150, 120, 500});
  const ProductTable table = measured();
  const Rig rig(DeviceType::kCuda, 1);
  choices_of(rig).use(table);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(algorithm_of_a_run(rig, DType::kBFloat16, DType::kFloat32), 0);
  EXPECT_EQ(algorithm_of_a_run(rig, DType::kBFloat16, DType::kBFloat16), 0);
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(said,
              HasSubstr("no measured choice for the product bf16 NN [32 x 48 x 16] to fp32, and maybe"));
  EXPECT_THAT(said, Not(HasSubstr("to bf16")));
  EXPECT_EQ(algorithm_of_a_run(rig), 2);
}

TEST_F(ProductChoicesTest, AnAlgorithmThatTheLibraryDoesNotKnow) {
  take({200, 150, 120, 500});
  ProductTable table = measured();
  table.begin()->second.algorithm = {1, 2, 3};
  const Rig rig(DeviceType::kCuda, 1);
  choices_of(rig).use(table);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(algorithm_of_a_run(rig), 0);
  EXPECT_THAT(
      ::testing::internal::GetCapturedStdout(),
      HasSubstr("cuBLASLt does not take the measured algorithm (id 2, tile 0, stages 0, splits 1) of "
                "matmul of [32 x 48 x 16], fp32 to fp32 (emulated status); its heuristics choose, and "
                "last bits may differ"));
}

// The algorithm belongs to another product; the contract forbids it for this one's results.
TEST_F(ProductChoicesTest, AnAlgorithmThatRoundsTwice) {
  take({200, 190, 200, 50});
  const ProductChoice in_place = measured().begin()->second;
  ProductTable table = measured(DType::kBFloat16, DType::kBFloat16);
  table.begin()->second = in_place;
  const Rig rig(DeviceType::kCuda, 1);
  choices_of(rig).use(table);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(algorithm_of_a_run(rig, DType::kBFloat16, DType::kBFloat16), 0);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("it adds parts in no order that keeps bits"));
}

// Refused at run time: see [Note: refused products].
TEST_F(ProductChoicesTest, AnAlgorithmThatIsRefusedWhenItRuns) {
  take({200, 120, 150, 500});
  const ProductTable table = measured();
  const Rig rig(DeviceType::kCuda, 1);
  choices_of(rig).use(table);
  emulation::product_refusals() = {.plain = 2};
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(algorithm_of_a_run(rig), 2);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("refused to run matmul of [32 x 48 x 16], fp32 to fp32 (emulated status); its next "
                        "proposal runs"));
}

// Only 64 bytes of alignment are guaranteed. More depends on chance and differs between runs.
TEST_F(ProductChoicesTest, AlignmentBeyondThatOfAllocationsIsNotCounted) {
  const ProductTable table = measured();
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table.begin()->first.alignment, 64);
}

}  // namespace
}  // namespace trireme::testing

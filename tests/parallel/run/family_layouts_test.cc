// Every model family of layout_families(): the same bits on every layout in every precision, and predicted
// memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/layout_families.h"
#include "tests/support/sanitized.h"

namespace trireme {
namespace {

using testing::LayoutFamily;
using testing::RankedLayout;
using testing::RunOutcome;

using FamilyAndPrecision = std::tuple<LayoutFamily, PrecisionMode>;

std::vector<LayoutFamily> families(bool in_tensor_chunks, bool has_fp8 = true) {
  std::vector<LayoutFamily> all;
  for (const LayoutFamily& family : testing::layout_families()) {
    if ((family.tensor_chunks > 1) == in_tensor_chunks && family.has_fp8 == has_fp8) all.push_back(family);
  }
  return all;
}

class FamilyLayouts : public ::testing::TestWithParam<FamilyAndPrecision> {
 protected:
  static void check(std::span<const RankedLayout> layouts) {
    const auto& [family, mode] = GetParam();
    const RunOutcome expected = testing::run_family(family, mode, {});
    EXPECT_TRUE(std::isfinite(expected.eval_loss));
    for (const RankedLayout& layout : layouts)
      EXPECT_TRUE(testing::run_family(family, mode, layout) == expected) << layout.to_string();
  }
};

TEST_P(FamilyLayouts, EveryLayoutGivesTheSameState) {
  check(testing::sampled(testing::common_layouts(), 3));
}

class FamilyTensorLayouts : public FamilyLayouts {};

TEST_P(FamilyTensorLayouts, GiveTheSameState) {
  check(testing::tensor_layouts());
}

std::string name_of(const ::testing::TestParamInfo<FamilyAndPrecision>& info) {
  return std::get<0>(info.param).name + "_" + std::string(name(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(All, FamilyLayouts,
                         ::testing::Combine(::testing::ValuesIn(families(false)),
                                            ::testing::Values(PrecisionMode::kFp32, PrecisionMode::kTf32,
                                                              PrecisionMode::kFp16, PrecisionMode::kBf16,
                                                              PrecisionMode::kFp8)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(WithoutFp8, FamilyLayouts,
                         ::testing::Combine(::testing::ValuesIn(families(false, false)),
                                            ::testing::Values(PrecisionMode::kFp32, PrecisionMode::kTf32,
                                                              PrecisionMode::kFp16, PrecisionMode::kBf16)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(All, FamilyTensorLayouts,
                         ::testing::Combine(::testing::ValuesIn(families(true)),
                                            ::testing::Values(PrecisionMode::kFp32, PrecisionMode::kFp16,
                                                              PrecisionMode::kBf16)),
                         name_of);

// Tensor chunks are part of the mathematics: they change the last bits, and nothing more.
TEST(FamilyChunks, ChangeLastBitsAlone) {
  const auto run = [](BlockList (*build)(int chunks), int chunks) {
    LayoutFamily family = testing::layout_family("vit");
    family.build = [build, chunks] { return build(chunks); };
    return testing::run_family(family, PrecisionMode::kFp32, {});
  };
  for (const auto build : {testing::vit_without_dropout, testing::cct_without_dropout}) {
    const RunOutcome whole = run(build, 1), cut = run(build, 4);
    EXPECT_NE(whole.hash, cut.hash);
    EXPECT_NEAR(whole.train_loss, cut.train_loss, 1e-4f * whole.train_loss);
    EXPECT_NEAR(whole.eval_loss, cut.eval_loss, 1e-4f * whole.eval_loss);
  }
}

}  // namespace
}  // namespace trireme

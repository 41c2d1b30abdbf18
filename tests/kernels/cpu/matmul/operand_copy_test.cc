// Checks that the products which the conformance suite intends for panels do use panels.
#include "kernels/cpu/matmul/operand_copy.h"

#include <gtest/gtest.h>

#include "tests/kernels/matmul_cases.h"

namespace trireme::cpu {
namespace {

using testing::MatmulCase;

OperandCopies copies_of(const MatmulCase& c) {
  const bool ta = c.ta == Transpose::kYes, tb = c.tb == Transpose::kYes;
  const Operand a{.data = nullptr,
                  .rows = ta ? c.k : c.m,
                  .cols = ta ? c.m : c.k,
                  .pitch = ta ? c.m : c.k,
                  .transposed = ta};
  const Operand b{.data = nullptr,
                  .rows = tb ? c.n : c.k,
                  .cols = tb ? c.k : c.n,
                  .pitch = tb ? c.k : c.n,
                  .transposed = tb};
  return copies_for(a, b, {c.m, c.n, c.k});
}

TEST(OperandCopyTest, CasesOfTheSuiteGoThroughPanels) {
  for (const MatmulCase& c : {testing::kWeightGradient, testing::kFewRows, testing::kDeep}) {
    EXPECT_EQ(copies_of(c), OperandCopies::kPanels) << c.m;
  }
}

TEST(OperandCopyTest, WideProductsAndShallowOnesDoNot) {
  EXPECT_NE(copies_of({2048, 3072, 768, Transpose::kNo, Transpose::kYes}), OperandCopies::kPanels);
  EXPECT_NE(copies_of({4096, 4096, 128, Transpose::kYes, Transpose::kNo}), OperandCopies::kPanels);
}

}  // namespace
}  // namespace trireme::cpu

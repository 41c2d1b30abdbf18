#include "parallel/plan/plan_text.h"

#include <gtest/gtest.h>

#include "parallel/plan/planner.h"

namespace trireme {
namespace {

TEST(PlanText, ShowsEqualRanksOnce) {
  const BatchLayout batch{.global_batch = 4, .micro_batch = 1, .data_ranks = 2};
  const std::string text = to_text(plan_training_step(2, {{Axis::kData, 2}}, batch), {"embedding", "head"});
  EXPECT_EQ(text,
            "ranks 0-1: 13 actions\n"
            "  Forward unit 0 (embedding) micro-batch 0\n"
            "  Forward unit 1 (head) micro-batch 0\n"
            "  Backward unit 1 (head) micro-batch 0\n"
            "  Backward unit 0 (embedding) micro-batch 0\n"
            "  Forward unit 0 (embedding) micro-batch 1\n"
            "  Forward unit 1 (head) micro-batch 1\n"
            "  Backward unit 1 (head) micro-batch 1\n"
            "  ReduceGrad unit 1 (head)\n"
            "  Backward unit 0 (embedding) micro-batch 1\n"
            "  ReduceGrad unit 0 (embedding)\n"
            "  ReduceLoss\n"
            "  GradNorm\n"
            "  OptimStep\n");
}

TEST(PlanText, NamesRanksInRuns) {
  EXPECT_EQ(format_ranks({0}), "0");
  EXPECT_EQ(format_ranks({0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
  const BatchLayout batch{.global_batch = 3, .micro_batch = 1, .data_ranks = 2};
  EXPECT_EQ(classes_of_equal_plans(plan_evaluation(1, {{Axis::kData, 2}}, batch)).size(), 2u);
}

}  // namespace
}  // namespace trireme

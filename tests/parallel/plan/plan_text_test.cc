#include "parallel/plan/plan_text.h"

#include <gtest/gtest.h>

#include <map>
#include <string_view>

#include "parallel/plan/planner.h"

namespace trireme {
namespace {

TEST(PlanText, ShowsEqualRanksOnce) {
  const BatchLayout batch{.global_batch = 4, .micro_batch = 1, .data_ranks = 2};
  const std::string text = to_text(plan_training_step(2, {{Axis::kData, 2}}, batch), {"embedding", "head"});
  EXPECT_EQ(text,
            "ranks 0-1: 15 actions\n"
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
            "  ClipGrad\n"
            "  OptimStep unit 0 (embedding)\n"
            "  OptimStep unit 1 (head)\n");
}

// ZeRO stages differ in the exchanges of data ranks.
TEST(PlanText, EveryZeroStageHasAPlanOfItsOwn) {
  const BatchLayout batch{.global_batch = 4, .micro_batch = 1, .data_ranks = 2};
  BatchLayout strided = batch;
  strided.assignment = Assignment::kStrided;
  const auto kinds_of = [&](const BatchLayout& layout, const PlanOptions& options) {
    std::map<std::string_view, int> count;
    const StepPlan plan = plan_training_step(2, {{Axis::kData, 2}}, layout, options);
    for (const Action& action : plan.ranks[0].actions) {
      if (traits(action.kind).scope == Scope::kData) ++count[name(action.kind)];
    }
    return count;
  };
  using Counts = std::map<std::string_view, int>;
  EXPECT_EQ(kinds_of(batch, {.gather_gradients = true}), (Counts{{"ReduceGrad", 2}, {"GatherGrad", 2}}));
  EXPECT_EQ(kinds_of(batch, {.layout = {.zero = ZeroStage::kOptimizer}}),
            (Counts{{"ReduceGrad", 2}, {"GatherNorms", 1}, {"GatherUpdated", 2}}));
  EXPECT_EQ(kinds_of(strided, {.layout = {.zero = ZeroStage::kGradients}}),
            (Counts{{"ReduceGrad", 4}, {"GatherNorms", 1}, {"GatherUpdated", 2}}));
  EXPECT_EQ(kinds_of(strided, {.layout = {.zero = ZeroStage::kParameters}}),
            (Counts{{"Gather", 8}, {"ReduceGrad", 4}, {"GatherNorms", 1}}));
}

TEST(PlanText, NamesRanksInRuns) {
  EXPECT_EQ(format_ranks({0}), "0");
  EXPECT_EQ(format_ranks({0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
  const BatchLayout batch{.global_batch = 3, .micro_batch = 1, .data_ranks = 2};
  EXPECT_EQ(classes_of_equal_plans(plan_evaluation(1, {{Axis::kData, 2}}, batch)).size(), 2u);
}

}  // namespace
}  // namespace trireme

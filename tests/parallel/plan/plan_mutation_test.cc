// The planner's plans contain no superfluous action: the validator rejects every plan that lacks one.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "parallel/plan/planner.h"
#include "parallel/plan/validate.h"

namespace trireme {
namespace {

using enum ActionKind;
using enum PipelineSchedule;

struct Case {
  int zero = 0, stages = 1, data = 1, chunks = 1, recompute = 0, prefetch = 1;
  PipelineSchedule schedule = kOneForwardOneBackward;
  bool keep_gathered = false, accumulate_unsharded = false, tied = false;
  int units = 6, tensor = 1, per_host = 1;
  bool sequence = false, uneven = false;

  std::string to_string() const {
    return fmt::format(
        "zero {}{}{}, {} stages of {} chunk(s) x {} ranks of {} a host x {}, {}, recompute {}, prefetch {}, "
        "{} units{}{}",
        zero, keep_gathered ? " kept gathered" : "", accumulate_unsharded ? " unsharded" : "", stages, chunks,
        data, per_host, tensor, name(schedule), recompute, prefetch, units,
        fmt::format("{}{}", tied ? ", tied" : "", sequence ? ", sequence" : ""), uneven ? ", uneven" : "");
  }
  Mesh mesh() const { return {{Axis::kData, data}, {Axis::kPipeline, stages}, {Axis::kTensor, tensor}}; }
  bool reduces_each() const { return zero >= 2 && !accumulate_unsharded; }
  BatchLayout batch(std::int64_t samples) const {
    return {.global_batch = samples,
            .data_ranks = data,
            .assignment = reduces_each() ? Assignment::kStrided : Assignment::kContiguous};
  }
  PlanOptions options() const {
    PlanOptions options{.layout = {.schedule = schedule,
                                   .zero = static_cast<ZeroStage>(zero),
                                   .accumulate_unsharded = accumulate_unsharded,
                                   .keep_gathered = keep_gathered,
                                   .prefetch_depth = prefetch,
                                   .recompute_every = recompute},
                        .gather_gradients = zero == 0,
                        .data_ranks_per_host = per_host,
                        .stages = StageMap::even({.num_units = units, .pipeline = stages, .chunks = chunks})};
    if (tensor > 1) {
      using enum TensorCall;
      const TensorCalls sequence_calls{.forward = {kGatherRows, kScatterSum},
                                       .backward = {kGatherRows, kScatterSum, kSum}};
      options.tensor_calls.assign(static_cast<std::size_t>(units),
                                  sequence ? sequence_calls : TensorCalls::sums(2, 1));
      options.tensor_calls[0] = {};
    }
    if (recompute == 2) options.statistics = std::vector<bool>(static_cast<std::size_t>(units), true);
    if (tied && stages > 1) options.ties = {{.owner = 0, .user = units - 1}};
    return options;
  }
  StepPlan step() const {
    return plan_training_step(units, mesh(), batch(3L * data - (uneven ? 1 : 0)), options());
  }
  StepPlan evaluation(bool of_averages = false) const {
    PlanOptions options = this->options();
    options.evaluates_averages = of_averages;
    return plan_evaluation(units, mesh(),
                           {.global_batch = 3L * data - 1, .micro_batch = 1, .data_ranks = data}, options);
  }
};

// Every ZeRO stage x one stage, and two with every schedule x recompute x one and two data ranks.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int zero : {0, 1, 2, 3}) {
    for (const int recompute : {0, 1, 2}) {
      for (const int data : {1, 2}) {
        const Case one{.zero = zero, .data = data, .recompute = recompute};
        all.push_back(one);
        for (const PipelineSchedule schedule :
             {kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubbleH1}) {
          Case two = one;
          two.stages = 2;
          two.schedule = schedule;
          two.chunks = schedule == kInterleaved ? 2 : 1;
          two.tied = recompute == 1;
          all.push_back(two);
        }
      }
    }
  }
  all.push_back({.zero = 3, .stages = 2, .data = 2, .recompute = 1, .keep_gathered = true});
  all.push_back({.zero = 3, .data = 2, .prefetch = 2, .keep_gathered = true, .accumulate_unsharded = true});
  all.push_back({.zero = 2, .stages = 2, .accumulate_unsharded = true});
  for (const int zero : {0, 1, 3}) {
    for (const PipelineSchedule schedule : {kOneForwardOneBackward, kZeroBubbleH1}) {
      all.push_back({.zero = zero,
                     .stages = 2,
                     .data = 2,
                     .recompute = zero == 1 ? 2 : 0,
                     .schedule = schedule,
                     .tied = true,
                     .tensor = 2});
    }
    all.push_back({.zero = zero, .recompute = 1, .tensor = 4});
    for (const PipelineSchedule schedule : {kOneForwardOneBackward, kZeroBubbleH1}) {
      all.push_back({.zero = zero,
                     .stages = 2,
                     .data = 2,
                     .recompute = zero == 1 ? 1 : 0,
                     .schedule = schedule,
                     .tensor = 2,
                     .sequence = true});
    }
  }
  for (const int zero : {0, 1, 2, 3}) {
    all.push_back({.zero = zero, .data = 4, .per_host = 2});
    all.push_back({.zero = zero, .stages = 2, .data = 4, .recompute = 1, .tied = true, .per_host = 2});
  }
  all.push_back({.zero = 3, .data = 4, .prefetch = 2, .keep_gathered = true, .per_host = 2});
  all.push_back({.zero = 3, .data = 4, .accumulate_unsharded = true, .tensor = 2, .per_host = 2});
  for (const int zero : {0, 1, 2, 3}) {
    for (const int stages : {1, 2}) {
      all.push_back({.zero = zero,
                     .stages = stages,
                     .data = 3,
                     .recompute = stages - 1,
                     .accumulate_unsharded = zero >= 2,
                     .tied = stages == 2,
                     .uneven = true});
    }
  }
  all.push_back({.zero = 3, .data = 2, .keep_gathered = true, .accumulate_unsharded = true, .uneven = true});
  all.push_back({.units = 1});
  all.push_back({.zero = 3, .data = 2, .units = 1});
  all.push_back({.stages = 2, .units = 2});
  return all;
}

StepPlan without(const StepPlan& whole, std::size_t rank, std::size_t position) {
  StepPlan plan = whole;
  std::vector<Action>& actions = plan.ranks[rank].actions;
  actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(position));
  return plan;
}

// Adds the kinds that were left out to `kinds`.
void expect_that_nothing_can_be_left_out(const StepPlan& whole, const std::string& where,
                                         std::set<ActionKind>& kinds) {
  const auto error = find_plan_error(whole);
  ASSERT_FALSE(error.has_value()) << where << ": " << error->message;
  for (std::size_t r = 0; r < whole.ranks.size(); ++r) {
    for (std::size_t i = 0; i < whole.ranks[r].actions.size(); ++i) {
      const Action& left_out = whole.ranks[r].actions[i];
      kinds.insert(left_out.kind);
      EXPECT_TRUE(find_plan_error(without(whole, r, i)).has_value())
          << where << ": accepted without action " << i << " of rank " << r << ", " << to_string(left_out);
    }
  }
}

TEST(PlanMutations, NoActionOfAStepCanBeLeftOut) {
  std::set<ActionKind> kinds;
  for (const Case& c : cases()) expect_that_nothing_can_be_left_out(c.step(), c.to_string(), kinds);
  EXPECT_FALSE(kinds.contains(kSwapAverages));
  EXPECT_EQ(kinds.size() + 1, static_cast<std::size_t>(kNumActionKinds)) << "a kind that no plan had";
}

TEST(PlanMutations, NoActionOfAnEvaluationCanBeLeftOut) {
  std::set<ActionKind> kinds;
  for (const Case& c : cases()) expect_that_nothing_can_be_left_out(c.evaluation(), c.to_string(), kinds);
  EXPECT_EQ(kinds, (std::set<ActionKind>{kGather, kGatherInHost, kRelease, kForward, kSumChunks,
                                         kReduceScatterSequence, kGatherSequence, kSendActivation,
                                         kRecvActivation, kReduceLoss}));
}

TEST(PlanMutations, NoActionOfAnEvaluationOfAveragesCanBeLeftOut) {
  std::set<ActionKind> kinds;
  for (const Case& c : cases()) expect_that_nothing_can_be_left_out(c.evaluation(true), c.to_string(), kinds);
  EXPECT_EQ(kinds, (std::set<ActionKind>{kGather, kGatherInHost, kRelease, kForward, kSumChunks,
                                         kReduceScatterSequence, kGatherSequence, kSendActivation,
                                         kRecvActivation, kReduceLoss, kSwapAverages, kGatherUpdated,
                                         kGatherUpdatedInHost, kSendTiedParameters, kRecvTiedParameters}));
}

// An action of the swaps that moves elsewhere is rejected, or stays between the neighbours that it needs: a
// forward never sees half of the averages, nor an update half of the parameters.
TEST(PlanMutations, SwapsDoNotMoveIntoAnEvaluation) {
  const Case c{.zero = 1, .stages = 2, .data = 2, .tied = true};
  const StepPlan whole = c.evaluation(true);
  ASSERT_FALSE(find_plan_error(whole).has_value());
  for (std::size_t r = 0; r < whole.ranks.size(); ++r) {
    const std::vector<Action>& actions = whole.ranks[r].actions;
    const auto loss = std::ranges::find(actions, kReduceLoss, &Action::kind) - actions.begin();
    for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(actions.size()); ++i) {
      const Action& action = actions[static_cast<std::size_t>(i)];
      if (action.kind != kSwapAverages && action.kind != kRecvTiedParameters) continue;
      StepPlan plan = without(whole, r, static_cast<std::size_t>(i));
      std::vector<Action>& moved = plan.ranks[r].actions;
      moved.insert(moved.begin() + (i < loss ? loss - 1 : loss), action);
      EXPECT_TRUE(find_plan_error(plan).has_value()) << "rank " << r << ": " << to_string(action);
    }
  }
}

TEST(PlanMutations, AStepSwapsNothing) {
  StepPlan plan = Case{}.step();
  plan.ranks[0].actions.insert(plan.ranks[0].actions.begin(), {.kind = kSwapAverages, .unit = 0});
  EXPECT_TRUE(find_plan_error(plan).has_value());
  plan = Case{}.evaluation();
  plan.ranks[0].actions.insert(plan.ranks[0].actions.begin(), {.kind = kSwapAverages, .unit = 0});
  EXPECT_TRUE(find_plan_error(plan).has_value());
}

}  // namespace
}  // namespace trireme

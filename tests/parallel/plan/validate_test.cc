// Plans that would hang, use freed memory or leave something behind are rejected, each with its reason.
#include "parallel/plan/validate.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/plan/planner.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using enum ActionKind;
using enum PipelineSchedule;

// Two ranks, one unit each, one micro-batch: the messages of a pipeline of two stages. It is not a whole
// step, because nothing reduces its gradients; the tests check errors before that point.
StepPlan two_stages() {
  StepPlan plan{.mesh = {{Axis::kPipeline, 2}}, .num_units = 2};
  plan.ranks.resize(2);
  plan.ranks[0].actions = {{kForward, 0, 0},
                           {kSendActivation, 0, 0, 1},
                           {kRecvGradient, 0, 0, 1},
                           {kBackward, 0, 0},
                           {kReduceLoss}};
  plan.ranks[1].actions = {{kRecvActivation, 1, 0, 0},
                           {kForward, 1, 0},
                           {kBackward, 1, 0},
                           {kSendGradient, 1, 0, 0},
                           {kReduceLoss}};
  return plan;
}

// One rank, two sharded units.
StepPlan sharded() {
  StepPlan plan{.mesh = {{Axis::kData, 1}}, .num_units = 2, .sharded_parameters = true};
  plan.ranks = {{{{kGather, 0},
                  {kForward, 0, 0},
                  {kRelease, 0},
                  {kGather, 1},
                  {kForward, 1, 0},
                  {kBackward, 1, 0},
                  {kRelease, 1},
                  {kReduceGrad, 1},
                  {kGather, 0},
                  {kBackward, 0, 0},
                  {kRelease, 0},
                  {kReduceGrad, 0},
                  {kReduceLoss},
                  {kGradNorm},
                  {kClipGrad},
                  {kOptimStep, 0},
                  {kOptimStep, 1}}}};
  return plan;
}

void erase(StepPlan& plan, std::size_t rank, std::size_t position) {
  auto& actions = plan.ranks[rank].actions;
  actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(position));
}

void swap(StepPlan& plan, std::size_t rank, std::size_t a, std::size_t b) {
  std::swap(plan.ranks[rank].actions[a], plan.ranks[rank].actions[b]);
}

void expect_error(const StepPlan& plan, const std::string& text) {
  const auto error = find_plan_error(plan);
  ASSERT_TRUE(error.has_value()) << "accepted; wanted: " << text;
  EXPECT_NE(error->message.find(text), std::string::npos) << error->message;
  EXPECT_THROW(validate(plan), Error);
}

TEST(Validate, AcceptsWhatThePlannerWrites) {
  for (const int ranks : {1, 2, 3, 8}) {
    const BatchLayout batch{.global_batch = 24L * ranks, .micro_batch = 8, .data_ranks = ranks};
    EXPECT_EQ(find_plan_error(plan_training_step(5, {{Axis::kData, ranks}}, batch)), std::nullopt);
    const BatchLayout odd{.global_batch = 17, .micro_batch = 2, .data_ranks = ranks};
    EXPECT_EQ(find_plan_error(plan_evaluation(5, {{Axis::kData, ranks}}, odd)), std::nullopt);
  }
  EXPECT_EQ(find_plan_error(sharded()), std::nullopt);
}

TEST(Validate, ASendWithoutAReceive) {
  StepPlan plan = two_stages();
  plan.ranks[0].actions.insert(plan.ranks[0].actions.begin() + 2, {kForward, 0, 1});
  plan.ranks[0].actions.insert(plan.ranks[0].actions.begin() + 3, {kSendActivation, 0, 1, 1});
  expect_error(plan,
               "rank 0, action 3 (SendActivation unit 0 micro-batch 1 peer 1): a send without a receive");
}

TEST(Validate, AReceiveWithoutASend) {
  StepPlan plan = two_stages();
  erase(plan, 0, 1);
  expect_error(
      plan,
      "rank 1, action 0 (RecvActivation unit 1 micro-batch 0 peer 0): a receive whose send never comes");
}

TEST(Validate, TwoRanksThatWaitForEachOther) {
  StepPlan plan = two_stages();
  auto& actions = plan.ranks[0].actions;  // rank 0 waits for the gradient before it sends the activation
  std::rotate(actions.begin() + 1, actions.begin() + 2, actions.begin() + 4);
  expect_error(plan, "rank 0 waits in Backward unit 0 micro-batch 0; rank 1 waits in Forward unit 1");
}

TEST(Validate, MessagesThatMeetInAnotherOrder) {
  StepPlan plan =
      plan_training_step(2, {{Axis::kPipeline, 2}}, {.global_batch = 2}, {.layout = {.schedule = kGpipe}});
  auto& actions = plan.ranks[1].actions;  // RecvActivation 0, RecvActivation 1, Forward 0 ...
  ASSERT_EQ(actions[1].kind, kRecvActivation);
  std::swap(actions[0], actions[1]);
  expect_error(plan, "receives micro-batch 1 of unit 0, where rank 0 (action 1) has micro-batch 0 of unit 0");
}

// Chunks of one stage share the link to the next. See [Note: channels of a plan].
TEST(Validate, ChunksThatMeetInAnotherOrder) {
  const PlanOptions options{.layout = {.schedule = PipelineSchedule::kInterleaved},
                            .stages = StageMap::even({.num_units = 4, .pipeline = 2, .chunks = 2})};
  StepPlan plan = plan_training_step(4, {{Axis::kPipeline, 2}}, {.global_batch = 2}, options);
  EXPECT_FALSE(find_plan_error(plan).has_value());
  auto& actions = plan.ranks[1].actions;
  const auto next_receive = [&](auto from) {
    return std::find_if(from, actions.end(), [](const Action& a) { return a.kind == kRecvActivation; });
  };
  const auto second = next_receive(next_receive(actions.begin()) + 1), third = next_receive(second + 1);
  ASSERT_EQ(second->unit, 1);
  ASSERT_EQ(third->unit, 3);
  std::swap(*second, *third);
  expect_error(plan, "sends micro-batch 1 of unit 0, where rank 1 (action 1) has micro-batch 0 of unit 2");
}

TEST(Validate, ABlockOfAnotherStageOrAnotherColumn) {
  StepPlan plan = plan_training_step(2, {{Axis::kPipeline, 2}}, {.global_batch = 1});
  plan.ranks[0].actions[0].unit = 1;
  expect_error(plan, "the unit is of stage 1, this rank of stage 0");
  plan =
      plan_training_step(2, {{Axis::kData, 2}, {Axis::kPipeline, 2}}, {.global_batch = 2, .data_ranks = 2});
  ASSERT_EQ(plan.ranks[0].actions[0].kind, kRecvGradient);
  plan.ranks[0].actions[0].peer = 3;
  expect_error(plan, "their micro-batches differ");
}

TEST(Validate, TiedParametersOfTwoStages) {
  const PlanOptions options{.ties = {{.owner = 0, .user = 1}}};
  const StepPlan whole = plan_training_step(2, {{Axis::kPipeline, 2}}, {.global_batch = 1}, options);
  EXPECT_EQ(find_plan_error(whole), std::nullopt);
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t i = 0; i < whole.ranks[r].actions.size(); ++i) {
      const ActionKind kind = whole.ranks[r].actions[i].kind;
      if (traits(kind).channel != Channel::kTied) continue;
      StepPlan plan = whole;
      erase(plan, r, i);
      EXPECT_NE(find_plan_error(plan), std::nullopt) << "dropped " << to_string(whole.ranks[r].actions[i]);
    }
  }
}

TEST(Validate, AMessageToNobodyOrToItself) {
  StepPlan plan = two_stages();
  plan.ranks[0].actions[1].peer = 2;
  expect_error(plan, "there is no rank 2");
  plan.ranks[0].actions[1].peer = 0;
  expect_error(plan, "cannot exchange with itself");
}

TEST(Validate, CollectivesInDifferentOrder) {
  const BatchLayout batch{.global_batch = 4, .micro_batch = 2, .data_ranks = 2};
  StepPlan plan = plan_training_step(2, {{Axis::kData, 2}}, batch);
  // forward 0, forward 1, backward 1, reduce 1, backward 0, reduce 0, ...
  plan.ranks[1].actions = {{kForward, 0, 0}, {kForward, 1, 0}, {kBackward, 1, 0}, {kBackward, 0, 0},
                           {kReduceGrad, 0}, {kReduceGrad, 1}, {kReduceLoss},     {kGradNorm},
                           {kClipGrad},      {kOptimStep, 0},  {kOptimStep, 1}};
  expect_error(plan,
               "rank 1, action 4 (ReduceGrad unit 0): collectives in different order: rank 0 is at action 3 "
               "(ReduceGrad unit 1)");
}

TEST(Validate, ACollectiveThatNotEveryRankJoins) {
  const BatchLayout batch{.global_batch = 4, .micro_batch = 2, .data_ranks = 2};
  StepPlan plan = plan_training_step(2, {{Axis::kData, 2}}, batch);
  auto& actions = plan.ranks[1].actions;
  actions.erase(std::ranges::find(actions, kReduceLoss, &Action::kind), actions.end());
  expect_error(plan,
               "a collective that not every rank joins; rank 0 waits in ReduceLoss; rank 1 has finished");
}

TEST(Validate, UseAfterRelease) {
  StepPlan plan = sharded();
  swap(plan, 0, 1, 2);
  expect_error(plan, "(Forward unit 0 micro-batch 0): uses the unit's parameters while they are released");
  plan = sharded();
  erase(plan, 0, 8);
  expect_error(plan, "(Backward unit 0 micro-batch 0): uses the unit's parameters while they are released");
}

TEST(Validate, AGroupLeftGathered) {
  StepPlan plan = sharded();
  erase(plan, 0, 10);
  expect_error(plan, "end of plan: unit 0 is left gathered");
}

// Three micro-batches, with recompute: each unit is gathered once, before its first use, and released once.
TEST(Validate, WhatIsKeptGatheredIsGatheredOnce) {
  const BatchLayout batch{.global_batch = 6, .data_ranks = 2};
  for (const int recompute : {0, 2}) {
    const StepPlan whole = plan_training_step(5, {{Axis::kData, 2}}, batch,
                                              {.layout = {.zero = ZeroStage::kParameters,
                                                          .accumulate_unsharded = true,
                                                          .keep_gathered = true,
                                                          .recompute_every = recompute}});
    EXPECT_EQ(find_plan_error(whole), std::nullopt);
    const auto& actions = whole.ranks[0].actions;
    for (const ActionKind kind : {kGather, kRelease}) {
      for (int unit = 0; unit < 5; ++unit) EXPECT_EQ(std::ranges::count(actions, Action{kind, unit}), 1);
    }
    const auto is_second_use = [](const Action& a) {
      return a.kind == kForward && a.unit == 3 && a.micro_batch == 1;
    };
    const auto second = std::ranges::find_if(actions, is_second_use) - actions.begin();
    StepPlan plan = whole;
    for (RankPlan& rank : plan.ranks) {
      rank.actions.insert(rank.actions.begin() + second, {{kRelease, 3}, {kGather, 3}});
    }
    expect_error(plan, "gathers the unit's parameters a second time");
    plan.keeps_gathered = false;
    EXPECT_EQ(find_plan_error(plan), std::nullopt);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].kind != kGather && actions[i].kind != kRelease) continue;
      plan = whole;
      for (std::size_t r = 0; r < plan.ranks.size(); ++r) erase(plan, r, i);
      EXPECT_NE(find_plan_error(plan), std::nullopt) << "dropped " << to_string(actions[i]);
    }
  }
}

// Units may share parameters: a Gather exchanges only the groups that no gathered unit has.
TEST(Validate, RanksThatGatherWithOthersGathered) {
  const PlanOptions options{
      .layout = {.zero = ZeroStage::kParameters, .accumulate_unsharded = true, .prefetch_depth = 2}};
  StepPlan plan = plan_training_step(3, {{Axis::kData, 2}}, {.global_batch = 2, .data_ranks = 2}, options);
  EXPECT_FALSE(find_plan_error(plan).has_value());
  auto& actions = plan.ranks[1].actions;
  const auto after = std::ranges::adjacent_find(
      actions, [](const Action& a, const Action& b) { return a.kind == kRelease && b.kind == kGather; });
  ASSERT_NE(after, actions.end());
  std::iter_swap(after, after + 1);
  expect_error(plan, "rank 0 has other units gathered when it comes here");
}

TEST(Validate, AnInputThatIsKeptInVain) {
  StepPlan plan =
      plan_training_step(4, {{Axis::kData, 1}}, {.global_batch = 1}, {.layout = {.recompute_every = 2}});
  EXPECT_FALSE(find_plan_error(plan).has_value());
  Action& second = plan.ranks[0].actions[1];
  ASSERT_EQ(second, (Action{.kind = kForward, .unit = 1, .micro_batch = 0, .keep = Keep::kNothing}));
  second.keep = Keep::kInput;
  expect_error(plan, "its input was kept in vain: the unit before it was recomputed");

  plan = plan_evaluation(2, {{Axis::kData, 1}}, {.global_batch = 1});
  plan.ranks[0].actions[0].keep = Keep::kTape;
  expect_error(plan, "keeps what no backward will consume");
}

TEST(Validate, BackwardThatCannotRun) {
  StepPlan plan = sharded();
  plan.ranks[0].actions.insert(plan.ranks[0].actions.begin() + 10, {kBackward, 0, 0});
  expect_error(plan, "no forward of it has run, or backward has consumed it");
  const BatchLayout batch{.global_batch = 1};
  plan = plan_training_step(2, {}, batch);
  swap(plan, 0, 2, 4);  // backward of unit 0 before that of unit 1
  expect_error(plan, "the gradient of its output is not there");
}

TEST(Validate, ForwardWithoutItsInputOrTwice) {
  const BatchLayout batch{.global_batch = 1};
  StepPlan plan = plan_training_step(2, {}, batch);
  swap(plan, 0, 0, 1);
  expect_error(plan, "its input is not there");
  plan = plan_training_step(2, {}, batch);
  plan.ranks[0].actions.insert(plan.ranks[0].actions.begin(), {kForward, 0, 0});
  expect_error(plan, "runs a second time");
}

TEST(Validate, WhatIsForgotten) {
  const BatchLayout batch{.global_batch = 1};
  const StepPlan whole = plan_training_step(2, {}, batch);
  for (std::size_t i = 0; i < whole.ranks[0].actions.size(); ++i) {
    StepPlan plan = whole;
    erase(plan, 0, i);
    EXPECT_NE(find_plan_error(plan), std::nullopt) << "dropped " << to_string(whole.ranks[0].actions[i]);
  }
}

TEST(Validate, EveryReductionOfEveryMicroBatchCounts) {
  const BatchLayout batch{.global_batch = 3, .assignment = Assignment::kStrided};
  const StepPlan whole = plan_training_step(2, {}, batch, {.layout = {.zero = ZeroStage::kGradients}});
  EXPECT_EQ(find_plan_error(whole), std::nullopt);
  for (std::size_t i = 0; i < whole.ranks[0].actions.size(); ++i) {
    if (whole.ranks[0].actions[i].kind != kReduceGrad) continue;
    StepPlan plan = whole;
    erase(plan, 0, i);
    EXPECT_NE(find_plan_error(plan), std::nullopt) << "dropped " << to_string(whole.ranks[0].actions[i]);
    plan = whole;
    plan.ranks[0].actions[i].micro_batch = -1;
    EXPECT_NE(find_plan_error(plan), std::nullopt) << "widened " << to_string(whole.ranks[0].actions[i]);
  }
}

TEST(Validate, ABackwardInTwoParts) {
  const StepPlan whole = plan_training_step(
      4, {{Axis::kPipeline, 2}}, {.global_batch = 2},
      {.layout = {.schedule = kZeroBubbleH1, .zero = ZeroStage::kParameters, .accumulate_unsharded = true}});
  EXPECT_EQ(find_plan_error(whole), std::nullopt);
  const auto& actions = whole.ranks[1].actions;  // of units 2 and 3
  const auto at = [&](const Action& wanted) {
    const auto found = std::ranges::find(actions, wanted);
    EXPECT_NE(found, actions.end()) << to_string(wanted);
    return static_cast<std::size_t>(found - actions.begin());
  };
  const Action input{kBackwardInput, 3, 0}, weight{kBackwardWeight, 3, 0},
      weight_below{kBackwardWeight, 2, 0};
  for (const int micro_batch : {0, 1}) {
    StepPlan plan = whole;
    erase(plan, 1, at({kBackwardWeight, 2, micro_batch}));
    expect_error(plan, fmt::format("end of plan: BackwardInput of unit 2 micro-batch {} is never followed by "
                                   "its BackwardWeight",
                                   micro_batch));
  }
  StepPlan plan = whole;
  swap(plan, 1, at(weight), at(weight_below));
  expect_error(plan, "(BackwardWeight unit 2 micro-batch 0): that of the unit after it must come first");
  plan = whole;
  swap(plan, 1, at(weight), at(input));
  expect_error(plan, "(BackwardWeight unit 3 micro-batch 0): no BackwardInput of it has run");
  plan = whole;
  plan.ranks[1].actions.insert(plan.ranks[1].actions.begin() + static_cast<std::ptrdiff_t>(at(weight)),
                               weight);
  expect_error(plan,
               "(BackwardWeight unit 3 micro-batch 0): no BackwardInput of it has run, or it has run itself");
  plan = whole;  // the first part needs the parameters
  std::size_t gather = at(input);
  while (!(actions[gather] == Action{kGather, 3})) --gather;
  erase(plan, 1, gather);
  expect_error(plan,
               "(BackwardInput unit 3 micro-batch 0): uses the unit's parameters while they are released");
  // The second part does not: units are gathered only for forwards and first parts.
  EXPECT_EQ(std::count(actions.begin(), actions.end(), Action{kGather, 3}), 2 + 2);
}

TEST(Validate, NothingAfterTheUpdate) {
  const BatchLayout batch{.global_batch = 1};
  StepPlan plan = plan_training_step(1, {}, batch);
  plan.ranks[0].actions.push_back({kOptimStep, 0});
  expect_error(plan, "updates a second time");
  plan = plan_training_step(2, {}, BatchLayout{.global_batch = 2});
  auto& actions = plan.ranks[0].actions;  // the last backward and its reduction move behind the norm
  const auto backward = std::ranges::find(actions, Action{kBackward, 0, 1});
  ASSERT_NE(backward, actions.end());
  std::rotate(backward, backward + 2, std::ranges::find(actions, kClipGrad, &Action::kind));
  expect_error(plan, "GradNorm");
}

TEST(Validate, ReducesTwiceOrNotAtAll) {
  const BatchLayout batch{.global_batch = 1};
  StepPlan plan = plan_training_step(1, {}, batch);
  plan.ranks[0].actions.insert(plan.ranks[0].actions.begin() + 2, {kReduceGrad, 0});
  expect_error(plan, "the unit has no gradient to reduce");
}

}  // namespace
}  // namespace trireme

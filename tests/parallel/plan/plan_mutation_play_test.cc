// Every single change of a plan is rejected by the validator, or is harmless: it is played, and ends with the
// same bits. Environment variables: TRIREME_MUTATION_PLAYS sets how many accepted swaps of a layout are
// played (all other accepted changes are played), TRIREME_MUTATION_LAYOUTS the number of additional random
// layouts, and TRIREME_TEST_SEED their seed.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "parallel/plan/validate.h"
#include "tests/support/forked_jobs.h"
#include "tests/support/mutated_layouts.h"
#include "tests/support/plan_mutations.h"

namespace trireme {
namespace {

using testing::LayoutPlayer;
using testing::PlanMutation;
using testing::PlayedPlan;

constexpr int kChildren = 2;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kDefaultPlays = 2;
constexpr std::size_t kEveryLayout = 8;  // one in this number of layouts
constexpr std::size_t kEveryHarmed = 32;
#else
constexpr std::uint64_t kDefaultPlays = 40;
constexpr std::size_t kEveryLayout = 1;
constexpr std::size_t kEveryHarmed = 5;
#endif

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::uint64_t seed() {
  return number_from_environment("TRIREME_TEST_SEED", 1);
}

struct Count {
  int layouts = 0, tried = 0, rejected = 0, harmless = 0, harmless_swaps = 0, not_played = 0;
};

// Verdicts of a mutation without harm.
constexpr const char* kRejected = "rejected";
constexpr const char* kHarmless = "harmless";
constexpr const char* kNotPlayed = "not played";

std::string to_string(const testing::Bits& bits, const testing::Bits& wanted) {
  std::string text = "other bits:";
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (bits[i] != wanted[i]) text += fmt::format(" {} is {:x}, not {:x};", i, bits[i], wanted[i]);
  }
  return text.substr(0, 200);
}

// Plays a changed plan, regardless of the validator.
std::string play(const LayoutPlayer& player, const StepPlan& mutant) {
  try {
    const testing::Bits bits = player.play(mutant);
    return bits == player.bits() ? kHarmless : to_string(bits, player.bits());
  } catch (const std::exception& error) {
    std::string what = error.what();
    std::ranges::replace(what, '\n', ' ');
    return "fails: " + what;
  }
}

std::string verdict_of(const LayoutPlayer& player, const PlanMutation& mutation, std::uint64_t& plays_left) {
  const StepPlan mutant = mutation.of(player.plan());
  if (find_plan_error(mutant)) return kRejected;
  if (mutation.kind == PlanMutation::Kind::kSwap) {
    const auto& before = player.plan().ranks[static_cast<std::size_t>(mutation.rank)].actions;
    const auto& after = mutant.ranks[static_cast<std::size_t>(mutation.rank)].actions;
    if (before == after) return kHarmless;
    if (plays_left == 0) return kNotPlayed;
    --plays_left;
  }
  return play(player, mutant);
}

void try_all(const testing::MutatedLayout& layout, PlayedPlan played, Count& count) {
  const LayoutPlayer player(layout, played);
  const auto error = find_plan_error(player.plan());
  ASSERT_FALSE(error.has_value()) << layout.to_string() << ": " << error->message;
  std::vector<PlanMutation> mutations = testing::all_mutations(player.plan());
  std::mt19937_64 random(seed());
  for (std::size_t i = mutations.size(); i > 1; --i) std::swap(mutations[i - 1], mutations[random() % i]);
  std::uint64_t plays_left = number_from_environment("TRIREME_MUTATION_PLAYS", kDefaultPlays) / kChildren;
  const auto verdicts = testing::run_forked(
      mutations.size(), [&](std::size_t i) { return verdict_of(player, mutations[i], plays_left); },
      {.children = kChildren});
  ++count.layouts;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const std::string& verdict = verdicts[i];
    count.not_played += verdict == kNotPlayed;
    if (verdict == kNotPlayed) continue;
    ++count.tried;
    count.rejected += verdict == kRejected;
    count.harmless += verdict == kHarmless;
    count.harmless_swaps += verdict == kHarmless && mutations[i].kind == PlanMutation::Kind::kSwap;
    if (verdict == kRejected || verdict == kHarmless) continue;
    ADD_FAILURE() << layout.to_string() << "\n  " << mutations[i].to_string(player.plan()) << "\n  "
                  << verdict;
  }
}

void print(const char* plans, const Count& count) {
  fmt::print(
      "plans of {} in {} layouts: {} mutations tried, {} rejected, {} harmless by playing, of these {} "
      "swaps; "
      "{} more swaps accepted and not played (TRIREME_MUTATION_PLAYS)\n",
      plans, count.layouts, count.tried, count.rejected, count.harmless, count.harmless_swaps,
      count.not_played);
}

void expect_no_harm(const char* plans, PlayedPlan played) {
  auto layouts = testing::mutated_layouts();
  EXPECT_GE(layouts.size(), 60u);
  for (const auto& layout :
       testing::random_layouts(number_from_environment("TRIREME_MUTATION_LAYOUTS", 0), seed())) {
    layouts.push_back(layout);
  }
  Count count;
  for (std::size_t i = 0; i < layouts.size(); i += kEveryLayout) try_all(layouts[i], played, count);
  print(plans, count);
  EXPECT_EQ(count.tried, count.rejected + count.harmless);
}

TEST(PlanMutationPlays, AChangedStepIsRejectedOrHarmless) {
  expect_no_harm("steps", PlayedPlan::kStep);
}

TEST(PlanMutationPlays, AChangedEvaluationIsRejectedOrHarmless) {
  expect_no_harm("evaluations", PlayedPlan::kEvaluation);
}

TEST(PlanMutationPlays, AChangedStepOfTensorRanksIsRejectedOrHarmless) {
  const auto layouts = testing::mutated_tensor_layouts();
  Count count;
  for (std::size_t i = 0; i < layouts.size(); i += kEveryLayout)
    try_all(layouts[i], PlayedPlan::kStep, count);
  print("steps of tensor ranks", count);
  EXPECT_EQ(count.tried, count.rejected + count.harmless);
}

// True if leaving out an action changes only memory, or affects only padding on some rank.
bool may_be_missing(const Action& action, const testing::MutatedLayout& layout) {
  return action.kind == ActionKind::kRelease ||
         (action.kind == ActionKind::kReduceGrad && layout.in.data == 1) ||
         (action.kind == ActionKind::kOptimStep && layout.in.data > 2);
}

// Shows that the play detects harm; otherwise finding none would prove nothing.
TEST(PlanMutationPlays, ShowTheHarmOfWhatTheValidatorRejects) {
  const auto layouts = testing::mutated_layouts();
  for (std::size_t i = 0; i < layouts.size(); i += kEveryHarmed) {
    const LayoutPlayer player(layouts[i], PlayedPlan::kStep);
    std::vector<PlanMutation> mutations = testing::all_mutations(player.plan());
    std::erase_if(mutations, [&](const PlanMutation& mutation) {
      const auto& actions = player.plan().ranks[static_cast<std::size_t>(mutation.rank)].actions;
      return mutation.kind != PlanMutation::Kind::kDelete ||
             may_be_missing(actions[mutation.position], layouts[i]);
    });
    const auto verdicts = testing::run_forked(
        mutations.size(), [&](std::size_t m) { return play(player, mutations[m].of(player.plan())); },
        {.children = kChildren});
    for (std::size_t m = 0; m < mutations.size(); ++m) {
      EXPECT_NE(verdicts[m], kHarmless)
          << layouts[i].to_string() << "\n  " << mutations[m].to_string(player.plan());
    }
  }
}

TEST(ForkedJobs, ThatDieOrHangAreResults) {
  const auto results = testing::run_forked(7,
                                           [](std::size_t i) -> std::string {
                                             if (i == 1) std::abort();
                                             if (i == 2) std::this_thread::sleep_for(std::chrono::hours(1));
                                             if (i == 3) throw std::runtime_error("three");
                                             return std::to_string(i);
                                           },
                                           {.children = 2, .seconds = 1});
  EXPECT_EQ(results, (std::vector<std::string>{"0", "died by signal 6", "died after 1 s without an end",
                                               "died of an exception: three", "4", "5", "6"}));
}

}  // namespace
}  // namespace trireme

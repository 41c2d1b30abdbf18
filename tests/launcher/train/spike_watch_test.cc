// Detection of spikes, and a run's reaction.
#include "launcher/train/spike_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "parallel/comm/local.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Typical values around 3 and 2 at a step.
double loss_at(std::int64_t step) {
  return 3.0 + 0.1 * std::sin(static_cast<double>(step) * 1.7);
}
double norm_at(std::int64_t step) {
  return 2.0 + 0.5 * std::cos(static_cast<double>(step) * 2.3);
}

TEST(SpikeDetector, NamesTheValueWhereASpikeBeginsAndNotWhereItGoesOn) {
  SpikeDetector detector;
  std::int64_t step = 0;
  for (; step < 40; ++step) EXPECT_FALSE(detector.add(loss_at(step), norm_at(step))) << step;
  const auto spike = detector.add(loss_at(step), 85.125);
  ASSERT_TRUE(spike);
  EXPECT_THAT(*spike, HasSubstr("the gradient norm is 85.125; of the last 40 steps the median is "));
  EXPECT_FALSE(detector.add(7.0, 90.0));  // the same spike continues, now also in the loss
  EXPECT_FALSE(detector.add(loss_at(step), norm_at(step)));
  EXPECT_THAT(*detector.add(7.0, norm_at(step)), HasSubstr("the loss is 7; of the last 43 steps"));
}

TEST(SpikeDetector, NeedsEnoughStepsAndAHalfOfTheMedianAtLeast) {
  SpikeDetector few, many;
  for (std::size_t i = 0; i + 1 < SpikeDetector::kEnough; ++i) EXPECT_FALSE(few.add(3, 2));
  EXPECT_FALSE(few.add(3, 1e6));
  for (std::size_t i = 0; i < SpikeDetector::kEnough; ++i) EXPECT_FALSE(many.add(3, 2));
  EXPECT_FALSE(many.add(3, 2.99));
  EXPECT_TRUE(many.add(3, 3.01));
}

TEST(SpikeDetector, LearnsAnotherLevelAndLeavesOutWhatIsNotFinite) {
  SpikeDetector detector;
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(detector.add(3, 2));
  EXPECT_FALSE(detector.add(std::nan(""), 2));
  EXPECT_FALSE(detector.add(3, std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(detector.add(3, 20));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(detector.add(3, 20)) << i;
  EXPECT_FALSE(detector.add(3, 25));
  EXPECT_TRUE(detector.add(3, 31));
}

class SpikeWatchTest : public ::testing::Test {
 protected:
  static StepResult step(std::int64_t number, bool spikes = false) {
    return {.step = number,
            .loss = static_cast<float>(loss_at(number)),
            .grad_norm = spikes ? 1e3f : static_cast<float>(norm_at(number))};
  }
  /// The state after steps up to `last`, as saved in a checkpoint.
  static SpikeState state_after(std::int64_t last) {
    SpikeWatch watch(OnSpike::kIgnore, *LocalWorld(1).communicator(0), "", {});
    for (std::int64_t s = 1; s <= last; ++s) watch.look(step(s));
    return saved(watch);
  }
  static SpikeState saved(const SpikeWatch& watch) {
    return spike_state_of(nlohmann::json::parse(to_json(watch.state()).dump()));
  }
  SpikeWatch watch(OnSpike policy, const SpikeState& state) const {
    return {policy, *LocalWorld(1).communicator(0), rollbacks_, state};
  }
  SpikeWatch watch(OnSpike policy) const { return watch(policy, state_after(30)); }

  testing::TemporaryFolder folder_;
  const std::filesystem::path rollbacks_ = folder_ / "rollbacks.jsonl";
};

TEST_F(SpikeWatchTest, WarnsOrRollsBackOrIgnores) {
  EXPECT_EQ(watch(OnSpike::kIgnore).look(step(31, true)).text, "");
  const auto warned = watch(OnSpike::kWarn).look(step(31, true));
  EXPECT_THAT(warned.text, HasSubstr("step 31: the gradient norm is 1000; of the last 30 steps"));
  EXPECT_FALSE(warned.rolls_back);
  const auto rolled = watch(OnSpike::kRollback).look(step(31, true));
  EXPECT_EQ(rolled.text, warned.text);
  EXPECT_TRUE(rolled.rolls_back);
  StepResult skipped = step(31, true);
  skipped.skipped = true;
  EXPECT_EQ(watch(OnSpike::kRollback).look(skipped).text, "");
}

TEST_F(SpikeWatchTest, ARollbackIsDoneOnceAndThenPassedWithAWarning) {
  watch(OnSpike::kRollback).remember(step(31, true));
  SpikeWatch again = watch(OnSpike::kRollback);
  EXPECT_THAT(again.rolled_back(), ElementsAre(31));
  const auto passed = again.look(step(31, true));
  EXPECT_TRUE(passed.came_again);
  EXPECT_FALSE(passed.rolls_back);
  again.look(step(32));
  EXPECT_FALSE(again.look(step(33, true)).rolls_back);  // shortly after a spike that recurred
  for (std::int64_t s = 34; s < 100; ++s) again.look(step(s));
  EXPECT_TRUE(again.look(step(100, true)).rolls_back);
  // An unfinished last line of a run that died is ignored; other damage is an error.
  std::ofstream(rollbacks_, std::ios::app) << "{\"st";
  EXPECT_THAT(watch(OnSpike::kRollback).rolled_back(), ElementsAre(31));
  std::ofstream(rollbacks_, std::ios::app) << "\n{\"step\":40}\n";
  EXPECT_THAT(testing::message_of([&] { watch(OnSpike::kRollback); }),
              HasSubstr(rollbacks_.string() + ":2: "));
}

TEST_F(SpikeWatchTest, APipeInPlaceOfRollbacksIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(rollbacks_.c_str(), 0600), 0);
  EXPECT_THAT(testing::message_of([&] { watch(OnSpike::kRollback); }), HasSubstr("it is a pipe"));
}

TEST_F(SpikeWatchTest, ALinkInPlaceOfRollbacksIsRefused) {
  testing::write_file(folder_ / "precious", "{\"step\":3}\nunfinished");
  const SpikeWatch before = watch(OnSpike::kRollback);
  std::filesystem::create_symlink("precious", rollbacks_);
  for (const std::string& message : {testing::message_of([&] { watch(OnSpike::kRollback); }),
                                     testing::message_of([&] { before.remember(step(31, true)); })})
    EXPECT_THAT(message, HasSubstr(rollbacks_.string() + ": it is a link to precious"));
  EXPECT_EQ(testing::read_file(folder_ / "precious"), "{\"step\":3}\nunfinished");
}

TEST_F(SpikeWatchTest, EveryBadLineOfRollbacksIsNamedInPlainWords) {
  for (const char* line :
       {"5", "[]", "{}", "{\"step\":-4}", "{\"step\":0}", "{\"step\":\"7\"}", "{\"step\":1e99}", "x"}) {
    testing::write_file(rollbacks_, fmt::format("{{\"step\":3}}\n{}\n", line));
    const std::string message = testing::message_of([&] { watch(OnSpike::kRollback); });
    EXPECT_THAT(message, HasSubstr(fmt::format(
                             "{}:2: not a line such as {{\"step\":12}}, with a step of 1 or more: {};",
                             rollbacks_.string(), line)));
    EXPECT_THAT(message, Not(HasSubstr("json.exception")));
  }
}

TEST_F(SpikeWatchTest, LeavesASpikeOutAndTakesItWhereManyInARowWere) {
  SpikeWatch watch = this->watch(OnSpike::kSkip);
  std::int64_t number = 31;
  const auto play = [&](bool spikes) {
    StepResult result = step(number++, spikes);
    result.skipped = watch.leaves_out(result.loss, result.grad_norm);
    return std::pair(result, watch.look(result));
  };
  for (int i = 0; i < SpikeWatch::kMostLeftOut; ++i) {
    const auto [result, finding] = play(true);
    EXPECT_TRUE(result.skipped && finding.left_out);
    // Left-out steps do not change the statistics.
    EXPECT_THAT(finding.text, HasSubstr(fmt::format(
                                  "step {}: the gradient norm is 1000; of the last 30 steps", result.step)));
  }
  const auto [taken, finding] = play(true);
  EXPECT_FALSE(taken.skipped);
  EXPECT_TRUE(finding.is_taken);
  EXPECT_FALSE(play(true).first.skipped);  // the same spike continues
  EXPECT_FALSE(play(false).first.skipped);
  EXPECT_TRUE(play(true).first.skipped);  // another spike
  EXPECT_FALSE(this->watch(OnSpike::kWarn).leaves_out(3, 1e3));
  EXPECT_FALSE(watch.leaves_out(std::nan(""), 1e3));  // skipped anyway
}

TEST_F(SpikeWatchTest, ARunThatGoesOnLeavesOutTheSameSteps) {
  const auto spikes = [](std::int64_t s) { return s == 40 || s == 90 || (s > 150 && s < 175) || s == 200; };
  SpikeWatch whole = watch(OnSpike::kSkip, {});
  std::vector<StepResult> results;
  std::vector<SpikeState> states = {saved(whole)};  // by number of finished steps
  for (std::int64_t s = 1; s <= 230; ++s) {
    results.push_back(step(s, spikes(s)));
    results.back().skipped = whole.leaves_out(results.back().loss, results.back().grad_norm);
    whole.look(results.back());
    states.push_back(saved(whole));
  }
  EXPECT_EQ(std::ranges::count_if(results, &StepResult::left_out), 3 + SpikeWatch::kMostLeftOut);
  for (const std::size_t resumed : {39, 40, 41, 151, 155, 158, 159, 160, 173, 199}) {
    SpikeWatch rest = watch(OnSpike::kSkip, states[resumed]);
    for (std::size_t i = resumed; i < results.size(); ++i) {
      ASSERT_EQ(rest.leaves_out(results[i].loss, results[i].grad_norm), results[i].skipped)
          << resumed << ", " << i + 1;
      rest.look(results[i]);
      ASSERT_EQ(rest.state(), states[i + 1]) << resumed << ", " << i + 1;
    }
  }
}

TEST_F(SpikeWatchTest, ARunThatGoesOnDecidesAsOneThatWasNotInterrupted) {
  for (const std::int64_t resumed : {1, 20, 77, 150, 151, 152, 199}) {
    SpikeWatch whole = watch(OnSpike::kWarn, {});
    std::optional<SpikeWatch> rest;
    for (std::int64_t s = 1; s <= 230; ++s) {
      const StepResult result = step(s, s == 150 || s == 200);
      const std::string text = whole.look(result).text;
      EXPECT_EQ(!text.empty(), s == 150 || s == 200) << s;
      if (rest) {
        EXPECT_EQ(rest->look(result).text, text) << resumed << ", " << s;
      }
      if (s == resumed) rest.emplace(watch(OnSpike::kWarn, saved(whole)));
    }
  }
}

// Shortly after a spike that recurred, another one is accepted, also after a restart.
TEST_F(SpikeWatchTest, ARunThatGoesOnStaysCalm) {
  watch(OnSpike::kRollback).remember(step(31, true));
  SpikeWatch before = watch(OnSpike::kRollback);
  before.look(step(31, true));
  before.look(step(32));
  EXPECT_FALSE(watch(OnSpike::kRollback, saved(before)).look(step(33, true)).rolls_back);
}

TEST_F(SpikeWatchTest, AllRanksKnowWhatRankZeroReads) {
  watch(OnSpike::kRollback).remember(step(31, true));
  const SpikeState state = state_after(30);
  run_local_ranks(3, [&](const std::shared_ptr<Communicator>& comm) {
    SpikeWatch watch(OnSpike::kRollback, *comm, comm->rank() == 0 ? rollbacks_ : folder_ / "none", state);
    EXPECT_TRUE(watch.look(step(31, true)).came_again);
  });
}

}  // namespace
}  // namespace trireme

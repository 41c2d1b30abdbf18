#include "launcher/page/top_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(TopText, ShowsStepsAndRanks) {
  const auto state = nlohmann::ordered_json::parse(R"({"status":"running","step":5,"steps":9,"written":100,
      "events":[{"kind":"skip","step":3,"text":"step 3"}],"last":{"loss":1.5,"phase_s.forward":0.25},
      "ranks":[{"rank":0,"step_ms":10.0,"mean_ms":10.5,"excess_ms":0.0,"slowest":false},
               {"rank":1,"step_ms":12.0,"mean_ms":12.5,"excess_ms":2.0,"slowest":true}]})");
  EXPECT_EQ(top_text("out\x1b[2J", state, 103),
            "out\\x1b[2J  running  step 5/9  last line 3 s ago\n"
            "loss 1.5\n"
            "phases, ms:  forward 250.00\n"
            "  rank  step ms  mean ms  over the median\n"
            "     0    10.00    10.50          0.00 ms\n"
            "     1    12.00    12.50          2.00 ms  slowest\n"
            "  skip: step 3\n");
}

TEST(TopText, NamesBeginNoLine) {
  const auto state = nlohmann::ordered_json::parse(R"({"status":"run\nning","step":5,"written":100,
      "events":[{"kind":"a\nb","step":3,"text":"c\td"}],"last":{"phase_s.e\nf":0.25},"ranks":[]})");
  EXPECT_EQ(top_text("o\nut", state, 103),
            "o\\nut  run\\nning  step 5  last line 3 s ago\n"
            "phases, ms:  e\\nf 250.00\n"
            "  a\\nb: c\\td\n");
}

TEST(TopText, OfManyRanksTheSlowestAreShown) {
  nlohmann::ordered_json state = {{"status", "running"}, {"step", 1}, {"written", 0}};
  state["events"] = nlohmann::ordered_json::array();
  state["last"] = nlohmann::ordered_json::object();
  for (int rank = 0; rank < 100; ++rank) {
    state["ranks"].push_back({{"rank", rank},
                              {"step_ms", 1.0},
                              {"mean_ms", static_cast<double>(rank)},
                              {"excess_ms", 0.0},
                              {"slowest", rank == 99}});
  }
  const std::string text = top_text("x", state, 0);
  EXPECT_THAT(text, HasSubstr("the 32 slowest of 100 ranks"));
  EXPECT_THAT(text, HasSubstr("\n    99 "));
  EXPECT_THAT(text, Not(HasSubstr("\n     5 ")));
}

}  // namespace
}  // namespace trireme

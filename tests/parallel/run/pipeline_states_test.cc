// One mathematics, complete: after 20 steps the state of every pipeline equals that of one process, for every
// schedule and ZeRO stage, with and without recompute, and with and without parameters that two stages share.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tests/support/pipeline_layout.h"

namespace trireme {
namespace {

using testing::PipelineLayout;
using testing::PipelineOutcome;

constexpr std::int64_t kSteps = 20;

struct Case {
  int stages = 1, data = 1;
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  PrecisionMode mode = PrecisionMode::kFp32;
};

// The smallest model and batch for the case: eight blocks for eight chunks, otherwise six, and at least one
// micro-batch per stage.
PipelineLayout layout_of(const Case& c) {
  const bool interleaved = c.schedule == PipelineSchedule::kInterleaved;
  PipelineLayout layout{.stages = c.stages,
                        .data = c.data,
                        .schedule = c.schedule,
                        .chunks = interleaved ? 2 : 1,
                        .precision = Precision(c.mode),
                        .global_batch = c.stages < 4  ? 4
                                        : c.data == 1 ? 6
                                                      : 8,
                        .micro_batch = 1};
  layout.gpt = {.layers = interleaved && c.stages == 4 ? 6 : 4,
                .hidden = 8,
                .heads = 2,
                .vocab = 16,
                .seq_len = 4,
                .dropout = 0.1f};
  return layout;
}

// The result of one process.
const PipelineOutcome& expected(const Case& c, bool tied) {
  PipelineLayout layout = layout_of(c);
  layout.stages = layout.data = layout.chunks = 1;
  layout.schedule = PipelineSchedule::kOneForwardOneBackward;
  layout.tied = tied;
  static std::map<std::tuple<PrecisionMode, bool, std::int64_t, std::int64_t>, PipelineOutcome> known;
  const std::tuple key(c.mode, tied, layout.gpt.layers, layout.global_batch);
  const auto found = known.find(key);
  return found != known.end() ? found->second : known[key] = testing::train_and_evaluate(layout, kSteps);
}

std::vector<Case> cases() {
  using enum PipelineSchedule;
  std::vector<Case> all;
  for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
    for (const int data : {1, 2}) {
      all.push_back({.stages = 1, .data = data, .mode = mode});
      for (const int stages : {2, 4}) {
        for (const PipelineSchedule schedule :
             {kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubbleH1}) {
          all.push_back({.stages = stages, .data = data, .schedule = schedule, .mode = mode});
        }
      }
    }
  }
  return all;
}

class PipelineStates : public ::testing::TestWithParam<Case> {};

TEST_P(PipelineStates, EqualThoseOfOneProcess) {
  for (const bool tied : {true, false}) {
    for (const int zero : {0, 1, 2, 3}) {
      for (const int recompute : {0, 2}) {
        PipelineLayout layout = layout_of(GetParam());
        layout.tied = tied;
        layout.zero = zero;
        layout.recompute = recompute;
        EXPECT_TRUE(testing::train_and_evaluate(layout, kSteps) == expected(GetParam(), tied))
            << layout.to_string();
      }
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  std::string schedule(name(info.param.schedule));
  std::ranges::replace(schedule, '-', '_');
  return fmt::format("{}_stages_{}_data_{}_{}", info.param.stages, info.param.data, schedule,
                     name(info.param.mode));
}

INSTANTIATE_TEST_SUITE_P(Layouts, PipelineStates, ::testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace trireme

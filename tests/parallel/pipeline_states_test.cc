// One mathematics, in full: after 20 steps the state of every pipeline is that of one process, for every
// schedule, ZeRO stage, with recompute and without, with parameters that two stages share and without.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

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

// As small as eight chunks and two data ranks of four micro-batches go.
PipelineLayout layout_of(const Case& c) {
  PipelineLayout layout{.stages = c.stages,
                        .data = c.data,
                        .schedule = c.schedule,
                        .chunks = c.schedule == PipelineSchedule::kInterleaved ? 2 : 1,
                        .precision = Precision(c.mode),
                        .global_batch = 8,
                        .micro_batch = 1};
  layout.gpt = {.layers = 6, .hidden = 8, .heads = 2, .vocab = 16, .seq_len = 4, .dropout = 0.1f};
  return layout;
}

// Of one process.
const PipelineOutcome& expected(PrecisionMode mode, bool tied) {
  static std::map<std::pair<PrecisionMode, bool>, PipelineOutcome> known;
  const auto found = known.find({mode, tied});
  if (found != known.end()) return found->second;
  PipelineLayout layout = layout_of({.mode = mode});
  layout.tied = tied;
  return known[{mode, tied}] = testing::train_and_evaluate(layout, kSteps);
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
        EXPECT_TRUE(testing::train_and_evaluate(layout, kSteps) == expected(GetParam().mode, tied))
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

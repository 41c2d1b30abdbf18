// The SVG image and the trace of a timeline.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "launcher/render/timeline_svg.h"
#include "launcher/render/timeline_trace.h"
#include "parallel/foresee/plan_simulate.h"
#include "parallel/plan/planner.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Timeline zero_bubble() {
  const StepPlan plan = plan_training_step(4, {{Axis::kPipeline, 4}}, {.global_batch = 8},
                                           {.layout = {.schedule = PipelineSchedule::kZeroBubbleH1}});
  return simulate_plan(plan, {.blocks = std::vector<BlockTime>(4, {"block", 1, 2}), .send_ms = 0.25});
}

// Every element is closed, in the right order.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  for (auto at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const auto end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = svg.substr(at + 1, end - at - 1), name = tag.substr(0, tag.find(' '));
    if (tag.back() == '/') continue;
    if (tag.front() != '/') {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty());
    EXPECT_EQ("/" + open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

TEST(TimelineSvg, DrawsEverySpanWithLegendAndBubble) {
  const Timeline timeline = zero_bubble();
  const std::string svg = to_svg(timeline, "zb-h1: 4 stages", "simulated");
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, " ms</title>"), static_cast<int>(timeline.spans.size()));
  for (const char* text :
       {">rank 0<", ">rank 3<", ">forward<", ">backward<", ">weight gradient<", ">communication<",
        ">zb-h1: 4 stages<", ">simulated<", "prefers-color-scheme: dark",
        "<title>BackwardWeight unit 3 (block) micro-batch 7, "}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, HasSubstr(fmt::format(">bubble: {:.1f} % of 4 x {:.2f} ms<", 100 * timeline.bubble_share(),
                                         timeline.duration_ms())));
  EXPECT_THAT(svg, Not(HasSubstr(">recompute<")));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
}

TEST(TimelineSvg, EscapesTextAndStandsEmptyTimelines) {
  const std::string svg = to_svg({.num_ranks = 1}, "a < b & \"c\"", "");
  expect_well_formed(svg);
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; &quot;c&quot;"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(TimelineTrace, HoldsEverySpan) {
  const Timeline timeline = zero_bubble();
  const auto json = nlohmann::json::parse(to_chrome_trace(timeline));
  int spans = 0, names = 0;
  double busy_us = 0;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "M") {
      names += event.at("name") == "thread_name" ? 1 : 0;
      continue;
    }
    ++spans;
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_EQ(event.at("tid"), event.at("cat") == "communication" ? 1 : 0);
    if (event.at("tid") == 0) busy_us += event.at("dur").get<double>();
  }
  EXPECT_EQ(spans, static_cast<int>(timeline.spans.size()));
  EXPECT_EQ(names, 4 * 2);
  EXPECT_EQ(busy_us, 4 * 8 * 3 * 1000);
  EXPECT_EQ(json.at("traceEvents").at(0).at("name"), "Forward unit 0 (block) micro-batch 0");
}

TEST(TimelineTrace, WhatTheHostEnqueuedHasAThreadOfItsOwn) {
  const TimelineSpan span{.rank = 0, .label = "Forward", .start_ms = 2, .end_ms = 3};
  Timeline timeline{.num_ranks = 1, .spans = {span}, .host_spans = {span, span}};
  timeline.host_spans[0].start_ms = 0.5;
  const auto json = nlohmann::json::parse(to_chrome_trace(timeline));
  std::vector<int> threads;
  std::vector<std::string> names;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "X") threads.push_back(event.at("tid"));
    if (event.at("name") == "thread_name") names.push_back(event.at("args").at("name"));
  }
  EXPECT_THAT(threads, testing::ElementsAre(0, 2, 2));
  EXPECT_THAT(names, testing::ElementsAre("compute", "host (enqueues)"));
  EXPECT_EQ(json.at("traceEvents").at(1).at("ts"), 500);
  EXPECT_EQ(timeline.duration_ms(), 1);  // only the device's
}

}  // namespace
}  // namespace trireme

#include "launcher/page/metrics_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

TEST(MetricsLine, ReadsNumbersWithTheirNames) {
  MetricsLine line;
  ASSERT_TRUE(read_metrics_line(
      R"({"step":12,"loss":1.25e-3,"skipped":true,"grad_norm":null,"state_hash":"a\"b","memory":{"parameters":1024},)"
      R"( "phase_s": {"forward": 0.5}, "rank_step_ms":[1.5,null,3], "other":{"deep":{"x":[1,{}]}}})",
      line));
  EXPECT_EQ(line.step, 12);
  EXPECT_TRUE(line.skipped);
  EXPECT_EQ(*line.find("loss"), 1.25e-3);
  EXPECT_TRUE(std::isnan(*line.find("grad_norm")));
  EXPECT_EQ(*line.find("memory.parameters"), 1024);
  EXPECT_EQ(*line.find("phase_s.forward"), 0.5);
  EXPECT_EQ(line.find("state_hash"), nullptr);
  ASSERT_EQ(line.rank_step_ms.size(), 3U);
  EXPECT_EQ(line.rank_step_ms[0], 1.5);
  EXPECT_TRUE(std::isnan(line.rank_step_ms[1]));
}

TEST(MetricsLine, NoShareOfThePeakIsAboveOne) {
  MetricsLine line;
  ASSERT_TRUE(read_metrics_line(R"({"step":1,"mfu":1.5,"loss":1.5})", line));
  EXPECT_TRUE(std::isnan(*line.find("mfu")));
  EXPECT_EQ(*line.find("loss"), 1.5);
  ASSERT_TRUE(read_metrics_line(R"({"step":2,"mfu":1.0})", line));
  EXPECT_EQ(*line.find("mfu"), 1.0);
}

TEST(MetricsLine, ALineOfBeforeLeavesNothing) {
  MetricsLine line;
  ASSERT_TRUE(read_metrics_line(R"({"step":1,"loss":2,"skipped":true,"rank_step_ms":[1]})", line));
  ASSERT_TRUE(read_metrics_line(R"({"step":2,"eval_loss":3})", line));
  EXPECT_EQ(line.find("loss"), nullptr);
  EXPECT_FALSE(line.skipped);
  EXPECT_TRUE(line.rank_step_ms.empty());
}

TEST(MetricsLine, EveryTornBeginningIsRefused) {
  const std::string whole = R"({"step":3,"loss":1.5,"memory":{"a":1},"rank_step_ms":[1,2]})";
  MetricsLine line;
  ASSERT_TRUE(read_metrics_line(whole, line));
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_FALSE(read_metrics_line(std::string_view(whole).substr(0, n), line)) << n;
}

TEST(MetricsLine, WhatIsNoLineOfARunIsRefused) {
  MetricsLine line;
  const std::string deep = R"({"step":1,"x":)" + std::string(100000, '[');
  for (const std::string& text :
       {std::string("[]"), std::string("{}"), std::string(R"({"loss":1})"),
        std::string(R"({"step":1,"skipped":"no"})"), std::string(R"({"step":1,"skipped":1})"),
        std::string(R"({"step":0})"), std::string(R"({"step":"1"})"), std::string(R"({"step":1e99})"),
        std::string(R"({"step":1} x)"), deep})
    EXPECT_FALSE(read_metrics_line(text, line)) << text.substr(0, 40);
}

TEST(MetricsLine, ALineOfMoreFieldsOrRanksThanARunWritesIsRefused) {
  MetricsLine line;
  const auto with = [&](std::size_t fields, std::size_t ranks) {
    std::string text = R"({"step":1)";
    for (std::size_t i = 0; i < fields; ++i) text += ",\"f" + std::to_string(i) + "\":1";
    text += ",\"rank_step_ms\":[1";
    for (std::size_t i = 1; i < ranks; ++i) text += ",1";
    return read_metrics_line(text + "]}", line);
  };
  EXPECT_TRUE(with(MetricsLine::kMaxValues, 256));
  EXPECT_FALSE(with(MetricsLine::kMaxValues + 1, 256));
  EXPECT_FALSE(with(1, 257));
}

}  // namespace
}  // namespace trireme

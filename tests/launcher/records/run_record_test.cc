#include "launcher/records/run_record.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

using Event = RunRecord::Event;

TEST(RunRecord, AFailureIsReadAsItWasWritten) {
  RunRecord record = record_of(Event::kFailed, Error(ErrorCode::kOutOfMemory, "no {}", "memory")
                                                   .about({.field = "Options::limit",
                                                           .value = "4",
                                                           .file = "a \"b\"",
                                                           .host = "node1",
                                                           .rank = 3,
                                                           .action = "step 17, action 5",
                                                           .block = "blocks.2",
                                                           .micro_batch = 1,
                                                           .tensor = "weight",
                                                           .remedy = "take less",
                                                           .system_error = 28}));
  record.reporter = 2;
  record.reporter_host = "node2";
  EXPECT_EQ(to_json(record).find('\n'), std::string::npos);
  const auto read = parse_record(to_json(record));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->event, Event::kFailed);
  EXPECT_EQ(read->time_ns, record.time_ns);
  EXPECT_EQ(read->reporter, 2);
  EXPECT_EQ(read->reporter_host, "node2");
  EXPECT_EQ(read->code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(read->message, "no memory");
  EXPECT_EQ(read->facts, record.facts);
}

TEST(RunRecord, UnknownFactsAreLeftOut) {
  const RunRecord record{.event = Event::kVerdict, .message = "line 1\nline \xff"};
  const std::string json = to_json(record);
  EXPECT_EQ(json.find("rank"), std::string::npos) << json;
  EXPECT_EQ(json.find('\n'), std::string::npos) << json;
  const auto read = parse_record(json);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->facts, ErrorFacts{});
  EXPECT_FALSE(read->has_culprit());
}

TEST(RunRecord, EventsOfAStart) {
  const auto resumed = parse_record(to_json({.event = Event::kResumed, .step = 600, .memory = "of node1"}));
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->step, 600);
  EXPECT_EQ(resumed->memory, "of node1");
  const auto started = parse_record(to_json({.event = Event::kStarted, .hosts = {"a", "b"}}));
  ASSERT_TRUE(started);
  EXPECT_EQ(started->hosts, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(started->is_failure());
}

TEST(RunRecord, WhatIsDamagedIsNone) {
  const std::string whole = to_json(record_of(Event::kFailed, Error(ErrorCode::kRuntime, "x")));
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(parse_record(whole.substr(0, length))) << length;
  for (
      const char* text :
      {"[]", "7", R"({"event":"failed"})", R"({"event":"odd","time_ns":1,"reporter":0,"reporter_host":""})",
       R"({"event":"failed","time_ns":1,"reporter":0,"reporter_host":"","code":"odd","message":""})",
       R"({"event":"failed","time_ns":1,"reporter":0,"reporter_host":"","code":"runtime","message":3})",
       R"({"event":"failed","time_ns":1,"reporter":99999999999,"reporter_host":"","code":"runtime","message":""})",
       R"({"event":"resumed","time_ns":1,"reporter":0,"reporter_host":""})"})
    EXPECT_FALSE(parse_record(text)) << text;
}

}  // namespace
}  // namespace trireme

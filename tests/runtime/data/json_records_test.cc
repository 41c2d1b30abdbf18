#include "runtime/data/json_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = JsonRecords::Kind;

TEST(JsonRecords, AreFoundByTheirContent) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "a } in a \" string"}]})";
  EXPECT_EQ(find_json_records(chat + "\n" + chat).kind, Kind::kRecords);
  EXPECT_EQ(find_json_records("\r\n" + chat + "\r\n" + chat + "\r\n").kind, Kind::kRecords);
  EXPECT_EQ(find_json_records("[" + chat + ",\n" + chat + "]").kind, Kind::kRecords);
  EXPECT_EQ(find_json_records(R"(["one text", "another"])").kind, Kind::kRecords);
  EXPECT_EQ(find_json_records("[\"neg\", \"bad\"]\n[\"pos\", \"good\"]\n").kind, Kind::kRecords);
  EXPECT_EQ(find_json_records("{\n  \"a\": 1\n}\n{\n  \"a\": 2\n}\n").kind, Kind::kRecords);
  EXPECT_EQ(find_json_records(chat).kind, Kind::kObject);
  EXPECT_EQ(find_json_records("{\n  \"name\": \"x\"\n}\n").kind, Kind::kObject);
}

TEST(JsonRecords, LongValuesAreJudgedByTheirBeginning) {
  const std::string filler(2'000'000, 'x');
  EXPECT_EQ(find_json_records("[{\"text\": \"" + filler + "\"}]").kind, Kind::kRecords);
  EXPECT_EQ(find_json_records("{\"text\": \"" + filler + "\"}\n").kind, Kind::kObject);
  EXPECT_EQ(find_json_records("{\"a\": 1}\n{\"text\": \"" + filler + "\"}\n").kind, Kind::kRecords);
  EXPECT_EQ(find_json_records("{" + filler).kind, Kind::kNone);
}

TEST(JsonRecords, TextThatBeginsWithABracketIsText) {
  for (const char* text :
       {"", " \n", "{", "{}", "[]", "[1] A footnote.", "[1]\n[2]\n", "{ int x; }", "{\"quoted\" words}",
        "[a link](http://x)", "{\"a\": 1}\nand then some words", "[\"quoted\"](x)", "{{template}} text",
        "{'a': 1}\n{'a': 2}\n", "A line.\n{\"a\": 1}\n{\"a\": 2}\n", "\"a\"\n\"b\"\n", "1\n2\n"}) {
    EXPECT_EQ(find_json_records(text).kind, Kind::kNone) << text;
  }
}

TEST(JsonRecords, SaysHowTheTextIsTakenOut) {
  const auto described = [](const char* text, bool labelled = false) {
    return describe_json(find_json_records(text), "in.jsonl", labelled);
  };
  EXPECT_THAT(find_json_records(R"({"b": 1, "a": 2})").fields, ElementsAre("a", "b"));
  EXPECT_THAT(described("{\"text\": \"a\"}\n{\"text\": \"b\"}"), HasSubstr("jq -r '.text' in.jsonl"));
  EXPECT_THAT(described("[{\"content\": \"a\"}]"), HasSubstr("jq -r '.[] | .content'"));
  EXPECT_THAT(described("{\"messages\": []}\n{\"messages\": []}"), HasSubstr("'.messages[] | .content'"));
  EXPECT_THAT(described("{\"label\": 1, \"text\": \"a\"}", true), HasSubstr("'[.label, .text] | @tsv'"));
}

}  // namespace
}  // namespace trireme

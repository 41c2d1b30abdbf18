#include "runtime/data/json_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using ::testing::AllOf;
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

TEST(JsonRecords, NumbersThatPythonWritesAreNumbers) {
  EXPECT_EQ(find_json_records("{\"text\": \"a\", \"score\": NaN}\n").kind, Kind::kObject);
  EXPECT_EQ(find_json_records("{\"a\": NaN}\n{\"a\": -Infinity}\n").kind, Kind::kRecords);
  EXPECT_EQ(find_json_records("[\n  {\n    \"a\": [Infinity, 1],\n    \"b\": \"\\\"NaN\"\n  }\n]\n").kind,
            Kind::kRecords);
  EXPECT_FALSE(find_json_records("{\"a\": NaN}\n{\"a\": -Infinity}\n").is_broken);
  EXPECT_EQ(find_json_records("{\"a\": 1, \"a\": 2}\n").kind, Kind::kObject);  // a repeated name
}

TEST(JsonRecords, BrokenLinesAmongThemAreRecords) {
  const std::string good = "{\"text\": \"a\"}\n", words = "and then some words\n";
  for (const std::string& text : std::vector<std::string>{
           good + "{\"text\": \"b\" \"c\"}\n",        // no comma
           "{\"text\": \"b\n" + good + good,          // an open string in the first line
           "{\"text\": {\"b\": 1}\n" + good,          // an open brace
           "ext\": \"cut\"}\n" + good + good + good,  // the beginning is missing
           "# a heading\n" + good + good + good, good + "{\"text\": undefined}\n\n\n" + good,
           good + words + good + words + good,
           "[\"neg\", \"bad\"]\n[\"pos\" \"so\"]\n[\"pos\", \"fine\"]\n[\"neg\", \"awful\"]\n",
           "[\n" + std::string("{\"a\": 1},\n{\"a\": 2},\n{\"a\": 3},\n]\n")}) {  // a comma too many
    EXPECT_EQ(find_json_records(text).kind, Kind::kRecords) << text;
    EXPECT_TRUE(find_json_records(text).is_broken) << text;
  }
  for (const std::string& text : std::vector<std::string>{
           good + words, words + good + good, good + words + good + words + good + words,
           "{\"quoted\" words}\n{\"quoted\" words}\n", "{{a}}\n{{b}}\n{{c}}\n", "{\"a\", 1},\n{\"b\", 2},\n",
           "{ int x; }\n{ int y; }\n{ int z; }\n", "[\"quoted\"](x)\n[\"quoted\"](y)\n"}) {
    EXPECT_EQ(find_json_records(text).kind, Kind::kNone) << text;
  }
  EXPECT_THAT(describe_json(find_json_records(good + "{\"text\": \"b\" \"c\"}\n"), "in.jsonl", false),
              AllOf(HasSubstr("holds JSON lines with the keys text, some of them broken, and"),
                    HasSubstr("`jq -rR 'fromjson? | .text' in.jsonl")));
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
        "{'a': 1}\n{'a': 2}\n", "A line.\n{\"a\": 1}\n{\"a\": 2}\n", "\"a\"\n\"b\"\n", "1\n2\n",
        // The beginning of a list or object, but not of JSON that says something.
        "[", "{\n", "[\"", "[\"A quote", "[\"Well,\" she said", "[1", "[[1", "{\"a", "{\"a\"", "[[a]] link",
        "{\n  x = 1;\n", "[\"a\", b]\n", "{\"a\": f(1),\n", "[Enter the king]\n", "{\"a\": 1}\n}\n",
        "[x for x in y]", "{\"a\": 1, // said so\n", "[\"line\nend"}) {
    EXPECT_EQ(find_json_records(text).kind, Kind::kNone) << text;
  }
}

TEST(JsonRecords, OneDocumentIsFoundWholeAndCutOff) {
  const std::string object = "{\"text\": \"a \\\"quote\\\" \u00e9\", \"n\": [1, -2.5, true, null]}";
  const std::string list = "[\n  " + object + ",\n  " + object + "\n]\n", numbers = "[3.5, 4, 5]\n";
  EXPECT_EQ(find_json_records(object).kind, Kind::kObject);
  EXPECT_EQ(find_json_records(numbers).kind, Kind::kRecords);
  EXPECT_EQ(find_json_records("[[1, 2],\n [3, 4]]").kind, Kind::kRecords);
  for (std::size_t size = sizeof "{\"text\":" - 1; size < object.size(); ++size) {
    const JsonRecords found = find_json_records(object.substr(0, size));
    EXPECT_EQ(found.kind, Kind::kObject) << object.substr(0, size);
    EXPECT_TRUE(found.is_cut_off);
    EXPECT_FALSE(found.fields.empty());
  }
  for (std::size_t size = list.find(':') + 1; size < list.size() - 2; ++size) {
    EXPECT_EQ(find_json_records(list.substr(0, size)).kind, Kind::kRecords) << list.substr(0, size);
    EXPECT_TRUE(find_json_records(list.substr(0, size)).is_list);
  }
  EXPECT_EQ(find_json_records("[[1, 2],\n [3,").kind, Kind::kRecords);
  EXPECT_EQ(find_json_records("[\"one\", \"two\", \"thr").kind, Kind::kRecords);
  EXPECT_TRUE(find_json_records("{\"a\": NaN, \"b\": ").is_cut_off);
}

TEST(JsonRecords, SaysHowTheTextIsTakenOut) {
  const auto described = [](const char* text, bool labelled = false) {
    return describe_json(find_json_records(text), "in.jsonl", labelled);
  };
  EXPECT_THAT(find_json_records(R"({"b": 1, "a": 2})").fields, ElementsAre("a", "b"));
  EXPECT_THAT(described("{\"text\": \"a\"}\n{\"text\": \"b\"}"), HasSubstr("jq -r '.text' in.jsonl"));
  EXPECT_THAT(described("[{\"content\": \"a\"}]"), HasSubstr("jq -r '.[] | .content'"));
  EXPECT_THAT(described("[\"a\", \"b\"]"), HasSubstr("jq -r '.[]' in.jsonl"));
  EXPECT_THAT(described("{\"a\": 1, \"text\":"),
              AllOf(HasSubstr("holds JSON (one object) with the keys a, text, cut off at its end"),
                    HasSubstr("Get the whole file and write its text"), HasSubstr("--as-text")));
  EXPECT_THAT(described("{\"messages\": []}\n{\"messages\": []}"), HasSubstr("'.messages[] | .content'"));
  EXPECT_THAT(described("{\"label\": 1, \"text\": \"a\"}", true), HasSubstr("'[.label, .text] | @tsv'"));
}

}  // namespace
}  // namespace trireme

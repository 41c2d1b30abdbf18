#include "runtime/checkpoint/json_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

TEST(JsonFile, ANameTwiceInOneObjectIsRefused) {
  const auto refusal = [](const char* text) { return message_of([&] { parse_json(text); }); };
  EXPECT_THAT(refusal(R"({"hidden_size": 64, "layers": 2, "hidden_size": 32})"),
              HasSubstr("it has the name \"hidden_size\" twice in one object"));
  EXPECT_THAT(refusal(R"({"a": 1, "b": [{"c": {"d": 1, "e": {}, "d": 1}}]})"), HasSubstr("\"b.c.d\" twice"));
  EXPECT_THAT(refusal(R"([{"a": 1}, {"b": 1, "\u0062": 1}])"),
              HasSubstr("\"b\" twice"));  // the same name, escaped
  EXPECT_THAT(refusal(R"({"": 1, "": 1})"), HasSubstr("\"\" twice"));
  EXPECT_THAT(refusal(R"({"a:b": ":", "c": [":", {"a:b": 1}], "a:b": 2})"), HasSubstr("\"a:b\" twice"));
}

TEST(JsonFile, TheSameNameInSeveralObjectsIsNone) {
  for (const char* text :
       {R"({"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 1}]})", R"({"x": "\":\"", "y:z": ":"})", "{}", "[]",
        "1", "\"a:b\"", "[[], {}, {\"\": {}}]"}) {
    EXPECT_EQ(parse_json(text), nlohmann::json::parse(text));
  }
}

TEST(JsonFile, TheFileIsNamed) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "config.json", R"({"vocab_size": 300, "vocab_size": 400})");
  EXPECT_THAT(message_of([&] { read_json_file(folder / "config.json", "configuration"); }),
              AllOf(HasSubstr("configuration "),
                    HasSubstr("config.json is damaged: it has the name \"vocab_size\" twice")));
}

}  // namespace
}  // namespace trireme

#include "runtime/base/nesting.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme {
namespace {

TEST(Nesting, OfJson) {
  EXPECT_EQ(json_nesting(""), 0);
  EXPECT_EQ(json_nesting("12"), 0);
  EXPECT_EQ(json_nesting(R"({"a": [1, {"b": 2}], "c": [[3]]})"), 3);
  EXPECT_EQ(json_nesting(R"(["[[[[", "\"[[", "\\", [1]])"), 2);
  EXPECT_EQ(json_nesting("]]]]["), 1);
  EXPECT_EQ(json_nesting("[\"never closed [[[["), 1);
  EXPECT_EQ(json_nesting(std::string(1'000'000, '[')), 1'000'000);
}

TEST(Nesting, ItemsOfJson) {
  EXPECT_EQ(json_items("{}"), 1U);
  EXPECT_EQ(json_items(R"({"a,b": [1, ",,", {"c": 2, "d": 3}]})"), 4U);
}

TEST(Nesting, NamesOfJson) {
  EXPECT_EQ(json_names("{}"), 0U);
  EXPECT_EQ(json_names(R"({"a:b": [1, "::", {"c": 2, "d\":": 3}]})"), 3U);
}

TEST(Nesting, OfToml) {
  EXPECT_EQ(toml_nesting(""), 0);
  EXPECT_EQ(toml_nesting("a.b.c = 1\n"), 2);
  EXPECT_EQ(toml_nesting("[a . b\t.c]\n"), 2);
  EXPECT_EQ(toml_nesting("a = [0.1, 0.2, 0.3]\nb = [[{c.d.e = 1}]]\n"), 3);
  EXPECT_EQ(toml_nesting("a = \"..........\" # ..........\nb = '......'\n"), 0);
  EXPECT_EQ(toml_nesting("a.\"b.c.d\".'e.f.g'.h = 1\n"), 3);
}

// Brackets after a string must be counted, for every form of string end.
TEST(Nesting, OfTomlBehindStrings) {
  for (const std::string text :
       {R"("a")", R"("")", R"("\"")", R"("\\")", R"('a')", R"('')", R"('\')", R"("""a""")", R"("""""")",
        "\"\"\"\n\"\"\"", R"("""a"""")", R"("""a""""")", R"("""a"b""c\"""d""")", R"('''a''')", R"('''''')",
        R"('''a'''')", R"('''a''''')", "'''a\n'b''c'''"}) {
    EXPECT_EQ(toml_nesting("a = [" + text + ", {b.c.d.e = 1}]"), 3) << text;
  }
  EXPECT_EQ(toml_nesting("a = \"no end\nb.c.d.e = 1"), 3);
}

}  // namespace
}  // namespace trireme

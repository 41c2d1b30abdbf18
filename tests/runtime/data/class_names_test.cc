#include "runtime/data/class_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::message_of;

TEST(ClassNames, TheFirstThatDiffersIsNamed) {
  const ClassNames train{"data.train", {"ant", "bee", "cat", "dog"}};
  const auto message = [&](const std::vector<std::string>& names) {
    return message_of([&] { check_same_classes(train, {"data.eval", names}, "Rename some."); });
  };
  EXPECT_EQ(
      message({"ant", "bee", "cat", "dgo"}),
      "the classes differ: label 3 is 'dog' in data.train and 'dgo' in data.eval; only in data.train: 'dog'; "
      "only in data.eval: 'dgo'. Rename some.");
  EXPECT_EQ(
      message({"ant", "cat", "dog"}),
      "the classes differ: label 1 is 'bee' in data.train and 'cat' in data.eval; only in data.train: 'bee'. "
      "Rename some.");
  EXPECT_EQ(
      message({"ant", "bee", "cat", "dog", "elk"}),
      "the classes differ: label 4 is none of the 4 in data.train and 'elk' in data.eval; only in data.eval: "
      "'elk'. Rename some.");
  EXPECT_EQ(message({"bee", "ant", "cat", "dog"}),
            "the classes differ: label 0 is 'ant' in data.train and 'bee' in data.eval. Rename some.");
}

TEST(ClassNames, PlacesWithoutNamesAgreeWithAny) {
  const ClassNames named{"here", {"ant", "bee"}}, unnamed{"there", {}};
  check_same_classes(named, unnamed, "");
  check_same_classes(unnamed, named, "");
  check_same_classes(named, {"there", {"ant", "bee"}}, "");
}

// A manifest is JSON, and so UTF-8; a folder's name may be any bytes.
TEST(ClassNames, BytesThatAreNoTextAreSpelled) {
  EXPECT_EQ(as_utf8({"cat", "caf\xC3\xA9", "caf\xE9", "\xF0\x9F\x90\xB1", "a\x80z", "\xE2\x82"}),
            (std::vector<std::string>{"cat", "caf\xC3\xA9", "caf\\xE9", "\xF0\x9F\x90\xB1", "a\\x80z",
                                      "\\xE2\\x82"}));
  // An overlong slash, half of a surrogate pair, beyond the last character.
  EXPECT_EQ(
      as_utf8({"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80"}),
      (std::vector<std::string>{"\\xC0\\xAF", "\\xE0\\x80\\xAF", "\\xED\\xA0\\x80", "\\xF4\\x90\\x80\\x80"}));
}

}  // namespace
}  // namespace trireme

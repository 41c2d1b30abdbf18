#include "launcher/config/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

TEST(NearestName, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("steps", "steps"), 0);
  EXPECT_EQ(edit_distance("steps", "STEPS"), 0);
  EXPECT_EQ(edit_distance("step", "steps"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  // A swap of neighbours counts as one edit.
  EXPECT_EQ(edit_distance("mirco", "micro"), 1);
}

TEST(NearestName, FirstOfEqualsWins) {
  const std::vector<std::string> names = {"lr", "min_lr", "epsilon"};
  EXPECT_EQ(nearest_name("epsilom", names), "epsilon");
  EXPECT_EQ(nearest_name("minlr", names), "min_lr");
  EXPECT_EQ(nearest_name("zz", names), "lr");
  EXPECT_EQ(nearest_name("lr", {}), "");
}

}  // namespace
}  // namespace trireme

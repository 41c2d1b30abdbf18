#include "launcher/host/thread_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/launcher/config/error_matchers.h"

namespace trireme {
namespace {

EnvironmentLookup lookup_in(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

std::vector<std::string> small_stacks(std::map<std::string, std::string> values, StackLimit limit = {}) {
  std::vector<std::string> names;
  for (const SmallStack& small : find_small_stacks(limit, lookup_in(std::move(values))))
    names.push_back(small.name + " " + small.value);
  return names;
}

TEST(ThreadStacks, SmallStacksOfThreadsAreFoundAsLibgompReadsThem) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  for (const char* text : {"64K", "128K", "128k", " 100 ", "2047", "1M", "200 k", "4096B", "0", "0M"})
    EXPECT_THAT(small_stacks({{"OMP_STACKSIZE", text}}), ElementsAre(std::string("OMP_STACKSIZE ") + text));
  for (const char* text :
       {"2M", "2048", "2097152 b", "8m", "2G", "9999999999999G", "", "64Q", "64K1", "-64K", "none"})
    EXPECT_THAT(small_stacks({{"OMP_STACKSIZE", text}}), IsEmpty()) << text;
  EXPECT_THAT(small_stacks({{"GOMP_STACKSIZE", "64K"}}), ElementsAre("GOMP_STACKSIZE 64K"));
  EXPECT_THAT(small_stacks({{"OMP_STACKSIZE", "4M"}, {"GOMP_STACKSIZE", "64K"}}), IsEmpty());
  EXPECT_THAT(small_stacks({{"OMP_STACKSIZE", "what"}, {"GOMP_STACKSIZE", "64K"}}),
              ElementsAre("GOMP_STACKSIZE 64K"));
  EXPECT_THAT(small_stacks({}, {.soft = 64 << 10, .hard = std::nullopt}), ElementsAre("ulimit -s 64"));
  EXPECT_THAT(small_stacks({}, {.soft = 8 << 20, .hard = 8 << 20}), IsEmpty());
  const std::string refusal = error_message([] {
    refuse_small_stacks(find_small_stacks({}, lookup_in({{"OMP_STACKSIZE", "128K"}})));
  });
  EXPECT_THAT(refusal, ::testing::HasSubstr("OMP_STACKSIZE = 128K: the stacks of threads would be too small; "
                                            "unset it, or set it to 2048 KiB or more"));
  EXPECT_NO_THROW(refuse_small_stacks({}));
  EXPECT_THAT(error_message([] {
                refuse_huge_stacks(lookup_in({{"OMP_STACKSIZE", "999999999G"}}));
              }),
              ::testing::HasSubstr("OMP_STACKSIZE = 999999999G: no thread can have a stack of that size"));
  EXPECT_NO_THROW(refuse_huge_stacks(lookup_in({{"OMP_STACKSIZE", "8M"}})));
}

}  // namespace
}  // namespace trireme

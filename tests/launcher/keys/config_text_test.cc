#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/config/config.h"
#include "launcher/keys/config_difference.h"
#include "launcher/keys/config_keys.h"
#include "launcher/keys/job_file.h"

namespace trireme {
namespace {

TEST(ConfigText, EqualRanksDoNotDiffer) {
  const std::vector<std::string> texts(3, to_toml(JobConfig()));
  EXPECT_EQ(describe_difference(texts), "");
  EXPECT_EQ(describe_difference({}), "");
}

TEST(ConfigText, DifferenceNamesRankAndKey) {
  JobConfig other;
  other.train.seed = 7;
  other.optimizer.lr = 0.5;
  const std::vector<std::string> texts = {to_toml(JobConfig()), to_toml(JobConfig()), to_toml(other)};
  EXPECT_EQ(describe_difference(texts),
            "rank 2 has optimizer.lr = 0.5, rank 0 has 0.0003\nrank 2 has train.seed = 7, rank 0 has 1");
}

TEST(ConfigText, DifferenceShowsKeysThatOneBuildLacks) {
  const std::vector<std::string> texts = {"[a]\nx = 1\n", "[a]\ny = 1\n", "[a]\nx = 1\n\n"};
  EXPECT_EQ(describe_difference(texts),
            "rank 1 has a.x = (nothing), rank 0 has 1\nrank 1 has a.y = 1, rank 0 has (nothing)\n"
            "rank 2 differs from rank 0 in layout, not in a key: do both run one build?");
}

TEST(ConfigText, Values) {
  EXPECT_EQ(to_toml(ConfigValue(true)), "true");
  EXPECT_EQ(to_toml(ConfigValue(std::int64_t{-3})), "-3");
  EXPECT_EQ(to_toml(ConfigValue(1.0)), "1.0");
  EXPECT_EQ(to_toml(ConfigValue(0.1)), "0.1");
  EXPECT_EQ(to_toml(ConfigValue(1e-8)), "1e-08");
  EXPECT_EQ(to_toml(ConfigValue(std::string("a\"b\\\n"))), "\"a\\\"b\\\\\\u000A\"");
  EXPECT_EQ(to_toml(ConfigValue(std::array<double, 2>{0.9, 1.0})), "[0.9, 1.0]");
}

TEST(ConfigText, TheReferenceHasEveryKey) {
  const std::string reference = config_reference();
  for (const ConfigKey& key : config_keys()) {
    EXPECT_THAT(reference, ::testing::HasSubstr("- `" + std::string(key.name) + "` ("));
    EXPECT_THAT(reference, ::testing::HasSubstr("### [" + std::string(key.section) + "]\n"));
  }
}

}  // namespace
}  // namespace trireme

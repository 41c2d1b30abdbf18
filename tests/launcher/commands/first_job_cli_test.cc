// The job on the first page of the README is examples/first.toml, and trains as it stands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/launcher/commands/cli_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

const std::string kRoot = TRIREME_SOURCE_DIR;

TEST_F(Cli, TheFirstJobOfTheReadmeTrains) {
  const std::string job = testing::read_file(kRoot + "/examples/first.toml");
  std::string listing;
  std::istringstream lines(job);
  for (std::string line; std::getline(lines, line);) listing += "    " + line + "\n";
  EXPECT_THAT(testing::read_file(kRoot + "/README.md"), HasSubstr("\n\n" + listing + "\n"));
  testing::write_file(scratch_ / "texts/a.txt", std::string(20000, 'a') + std::string(20000, 'b'));
  testing::write_file(scratch_ / "first.toml", job);
  ASSERT_EQ(run({"data", "text", "texts", "--out", "out/text", "--eval-fraction", "0.02"}).exit_code, 0);
  const ProgramResult trained =
      run({"train", "first.toml", "--out", "out/first", "--set", "train.steps=2", "--set",
           "train.global_batch=2", "--set", "train.micro_batch=2", "--set", "optimizer.warmup_steps=1"});
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
}

}  // namespace
}  // namespace trireme

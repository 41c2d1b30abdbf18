// Runs the built program in its own temporary folder.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/commands/run_program.h"

namespace trireme {

class Cli : public ::testing::Test {
 protected:
  ProgramResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), TRIREME_BINARY);
    return run_program(arguments, scratch_);
  }
  /// Runs the program and expects a refusal: exit code 2, one message, empty standard output.
  std::string refusal(std::vector<std::string> arguments) {
    const ProgramResult result = run(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, ::testing::StartsWith("trireme: error: "));
    return result.err;
  }

  testing::TemporaryFolder scratch_;
};

}  // namespace trireme

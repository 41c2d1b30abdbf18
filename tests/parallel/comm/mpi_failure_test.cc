// A failing rank ends the whole job with its message, while the others wait for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Ne;
using ::testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string output;
};

// CMake defines the paths. `timeout` ends a hanging job with exit code 124; on a busy machine mpirun alone
// may take ten seconds to start.
Outcome run_job(int num_ranks, const std::string& failure) {
  const std::string command = "timeout 40 " MPIEXEC_PATH " --oversubscribe --allow-run-as-root -np " +
                              std::to_string(num_ranks) + " " FAILING_PROGRAM_PATH " " + failure + " 2>&1";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> text;
  while (std::fgets(text.data(), text.size(), pipe) != nullptr) outcome.output += text.data();
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class MpiFailure : public ::testing::TestWithParam<int> {};

TEST_P(MpiFailure, ExceptionEndsTheJob) {
  const Outcome outcome = run_job(GetParam(), "throw");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "rank 1: loss is not finite in blocks.3"), 1) << outcome.output;
}

TEST_P(MpiFailure, AbortEndsTheJob) {
  const Outcome outcome = run_job(GetParam(), "abort");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "rank 1: the data folder vanished"), 1) << outcome.output;
  EXPECT_THAT(outcome.output, Not(HasSubstr("loss is not finite")));
}

TEST_P(MpiFailure, ExceptionThatLeavesTheSessionEndsTheJob) {
  const Outcome outcome = run_job(GetParam(), "careless");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("rank 1: ends the job: an exception left the MPI session"));
}

TEST_P(MpiFailure, KilledRankEndsTheJob) {
  const Outcome outcome = run_job(GetParam(), "kill");
  EXPECT_THAT(outcome.exit_code, AllOf(Ne(0), Ne(124))) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("signal 9"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, MpiFailure, ::testing::Values(2, 4));

}  // namespace

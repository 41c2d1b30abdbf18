// What a supervisor takes for the reason of an end, of outputs as Open MPI 4.1 makes them.
#include "launcher/supervise/job_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

std::string verdict(const std::string& output) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "log", "step 1/9  loss 4.1\n" + output);
  return verdict_of(folder / "log");
}

TEST(JobWords, TheJobsOwnErrorGoesBeforeMpiruns) {
  const std::string noticed =
      "mpirun noticed that process rank 1 with PID 4711 on node a exited on signal 9 (Killed).";
  EXPECT_EQ(verdict("----\n" + noticed + "\n----\n"), noticed);
  EXPECT_EQ(
      verdict("trireme: error: rank 1 (process 4711) died in step 3\n  rank 0 waited\n" + noticed + "\n"),
      "rank 1 (process 4711) died in step 3\n  rank 0 waited");
  EXPECT_EQ(verdict(""), "");
}

TEST(JobWords, ARankThatExitsWithoutAWordIsNamedByMpirun) {
  EXPECT_EQ(verdict("mpirun detected that one or more processes exited with non-zero status, thus causing\n"
                    "the job to be terminated. The first process to do so was:\n\n"
                    "  Process name: [[14824,1],1]\n  Exit code:    3\n"),
            "rank 1 exited with code 3, as mpirun noticed");
  const std::string exited = "mpirun has exited due to process rank 1 with PID 0 on";
  EXPECT_EQ(verdict(exited + "\nnode vm exiting improperly. There are three reasons this could occur:\n"),
            exited);
}

TEST(JobWords, MpirunsOwnRefusalIsKnown) {
  const std::string refusal = "mpirun: Error: unknown option \"--nonsense\"";
  EXPECT_EQ(verdict(refusal + "\nType 'mpirun --help' for usage.\n"), refusal);
  EXPECT_TRUE(is_refusal_of_mpirun(refusal));
  EXPECT_FALSE(is_refusal_of_mpirun("rank 1 exited with code 3, as mpirun noticed"));
}

TEST(JobWords, WhatMpirunRefusesEachTimeComesWithWhatToDo) {
  const std::string rule(74, '-');
  const std::string root =
      verdict(rule +
              "\nmpirun has detected an attempt to run as root.\n\nRunning as root is *strongly* discouraged "
              "as any mistake (e.g., in\ndefining TMPDIR) or bug can result in catastrophic damage\n" +
              rule + "\n");
  EXPECT_TRUE(is_refusal_of_mpirun(root));
  EXPECT_THAT(root, HasSubstr("mpirun refuses to run as root: "));
  EXPECT_THAT(root, HasSubstr("-- --allow-run-as-root"));
  EXPECT_TRUE(is_refusal_of_mpirun(verdict("prterun has detected an attempt to run as root.\n")));
  const std::string slots =
      verdict(rule +
              "\nThere are not enough slots available in the system to satisfy the 8\nslots that were "
              "requested by the application:\n\n  trireme\n");
  EXPECT_TRUE(is_refusal_of_mpirun(slots));
  EXPECT_THAT(slots, HasSubstr("to start 8 ranks"));
  EXPECT_FALSE(is_refusal_of_mpirun(verdict("a document that has detected an attempt to run as root\n")));
  EXPECT_FALSE(is_refusal_of_mpirun(verdict("")));
}

TEST(JobWords, TheCheckpointThatAJobGoesOnFromIsWhatItSays) {
  const testing::TemporaryFolder folder;
  const auto resumed = [&](const std::string& output) {
    testing::write_file(folder / "log", output);
    return resumed_step(folder / "log");
  };
  EXPECT_EQ(resumed("step 1/9  loss 4.1\n"), std::nullopt);
  EXPECT_EQ(resumed("trireme: warning: ignoring damaged checkpoint out/checkpoints/step-002500: x\n"
                    "resuming from out/checkpoints/step-002200\nstep 2201/2500\n"),
            2200);
  EXPECT_EQ(resumed("going on from the checkpoint of step 600 in the memory of node1 and node2\n"), 600);
  EXPECT_EQ(resumed_step(folder / "none"), std::nullopt);
}

}  // namespace
}  // namespace trireme

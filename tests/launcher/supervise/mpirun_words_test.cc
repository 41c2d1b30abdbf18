// Messages as Open MPI 4.1 writes them.
#include "launcher/supervise/mpirun_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "launcher/supervise/job_output.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

MpirunWords words_in(const std::string& output) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "log", "step 1/9  loss 4.1\n" + output);
  return read_mpirun_words(folder / "log");
}

TEST(MpirunWords, NameTheRankAndTheHostThatEndedFirst) {
  const std::string noticed =
      "mpirun noticed that process rank 1 with PID 4711 on node a.b exited on signal 9 (Killed).";
  const MpirunWords killed = words_in("----\n" + noticed + "\n----\n");
  EXPECT_EQ(killed.verdict, noticed);
  EXPECT_EQ(killed.rank, 1);
  EXPECT_EQ(killed.host, "a.b");
  const MpirunWords exited = words_in(
      "mpirun has exited due to process rank 3 with PID 0 on\nnode vm exiting improperly. There are three "
      "reasons this could occur:\n");
  EXPECT_EQ(exited.verdict, "mpirun has exited due to process rank 3 with PID 0 on");
  EXPECT_EQ(exited.rank, 3);
  EXPECT_EQ(exited.host, "vm");
  const MpirunWords coded = words_in(
      "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
      "the job to be terminated. The first process to do so was:\n\n"
      "  Process name: [[14824,1],1]\n  Exit code:    3\n");
  EXPECT_EQ(coded.verdict, "rank 1 exited with code 3, as mpirun noticed");
  EXPECT_EQ(coded.rank, 1);
  const MpirunWords none = words_in("trireme: error: rank 1: no space left on host b\n");
  EXPECT_EQ(none.verdict, "");
  EXPECT_EQ(none.rank, -1);
  EXPECT_EQ(none.host, "");
}

TEST(MpirunWords, NameTheHostWhoseDaemonIsLost) {
  const std::string lost =
      "step 3\n---\nORTE has lost communication with a remote daemon.\n\n"
      "  HNP daemon   : [[25207,0],0] on node node1\n"
      "  Remote daemon: [[25207,0],1] on node 10.0.0.2\n";
  EXPECT_EQ(words_in(lost).lost_host, "10.0.0.2");
  EXPECT_EQ(words_in("  Remote daemon: [[25207,0],1] on node 10.0.0.2\n").lost_host, "");
  EXPECT_EQ(read_mpirun_words("/nowhere/log").lost_host, "");
  EXPECT_TRUE(ends_job("ORTE has lost communication with a remote daemon."));
  EXPECT_TRUE(ends_job("[vm:12] MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD"));
  EXPECT_FALSE(ends_job("trireme: error: rank 1 failed; the job ends"));
}

TEST(MpirunWords, ARefusalIsKnown) {
  const std::string refusal = "mpirun: Error: unknown option \"--nonsense\"";
  const MpirunWords words = words_in(refusal + "\nType 'mpirun --help' for usage.\n");
  EXPECT_EQ(words.verdict, refusal);
  EXPECT_TRUE(words.refuses);
  EXPECT_FALSE(words_in("  Process name: [[14824,1],1]\n  Exit code:    3\n").refuses);
}

// Open MPI 4.1, after `kill -USR1` of an mpirun whose ranks exit with 75.
TEST(MpirunReports, AreTakenAndOtherLinesAreNot) {
  const std::string rule(74, '-');
  const std::string output =
      "mpirun: Forwarding signal 10 to job\nstopped at step 88 of 100000\n" + rule +
      "\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code.\n" + rule + "\n" +
      rule +
      "\nmpirun detected that one or more processes exited with non-zero status.\n\n  Exit code:    75\n" +
      rule + "\n--- a line of the job\n";
  MpirunReports reports;
  std::istringstream lines(output);
  std::string rest;
  for (std::string line; std::getline(lines, line);) {
    if (!reports.take(line)) rest += line + "\n";
  }
  EXPECT_EQ(rest, "stopped at step 88 of 100000\n--- a line of the job\n");
}

TEST(SupervisorMessage, ANewlineInANameBeginsNoMessage) {
  EXPECT_EQ(supervisor_message("attempt 1 fails: \x1b[2J"), "trireme run: attempt 1 fails: \\x1b[2J\n");
  EXPECT_EQ(supervisor_message("hosts that cannot be used:\n  a\ntrireme run: done"),
            "trireme run: hosts that cannot be used:\n  a\n  trireme run: done\n");
}

TEST(MpirunWords, ARefusalComesWithWhatToDo) {
  const std::string rule(74, '-');
  const MpirunWords slots =
      words_in(rule +
               "\nThere are not enough slots available in the system to satisfy the 8\nslots that were "
               "requested by the application:\n\n  trireme\n");
  EXPECT_TRUE(slots.refuses);
  EXPECT_THAT(slots.verdict, HasSubstr("to start 8 ranks"));
  EXPECT_FALSE(words_in("a document: There are not enough slots available in the system\n").refuses);
  EXPECT_FALSE(words_in("").refuses);
}

}  // namespace
}  // namespace trireme

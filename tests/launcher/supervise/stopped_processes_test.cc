#include "launcher/supervise/stopped_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include "launcher/supervise/job_process.h"
#include "runtime/checkpoint/writer_mark.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

/// A shell in place of mpirun, with a child in place of a rank.
class StoppedJob : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(wait_until([&] {
      for (const int process : tagged_processes(tag_)) {
        if (process != job_.process() && is_sleep(process)) rank_ = process;
      }
      // A process has no environment for a moment while it starts another program: only now is the count
      // final.
      return rank_ != 0 && tagged_processes(tag_).size() == 2;
    }));
  }

  static bool is_sleep(int process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/comm");
    std::string name;
    return file >> name && name == "sleep";
  }

  /// Waits long enough for a busy machine.
  template <class Condition>
  static bool wait_until(Condition condition) {
    for (int round = 0; round < 6000; ++round) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  void stop(std::vector<int> processes) {
    for (const int process : processes) kill(process, SIGSTOP);
    ASSERT_TRUE(wait_until([&] { return stopped_processes(tag_).size() == processes.size(); }));
  }
  bool none_is_stopped() {
    return wait_until([&] { return stopped_processes(tag_).empty(); });
  }

  const testing::TemporaryFolder folder_;
  const std::string tag_ = writer_mark() + "#stopped";
  JobProcess job_{{.command = {"sh", "-c", "sleep 600 & wait"}, .log = folder_ / "log", .tag = tag_}};
  int rank_ = 0;
  StoppedProcesses stopped_{tag_, job_.process()};
  const StoppedProcesses::Clock::time_point start_ = StoppedProcesses::Clock::now();
};

TEST_F(StoppedJob, IsPausedUntilItIsToldToEnd) {
  EXPECT_EQ(stopped_.look(true, start_), "");
  stop({job_.process(), rank_});
  StoppedProcesses stopped(tag_, job_.process());
  for (const int s : {0, 11, 3600}) EXPECT_EQ(stopped.look(false, start_ + std::chrono::seconds(s)), "");
  EXPECT_EQ(stopped_processes(tag_).size(), 2u);
  EXPECT_THAT(stopped.look(true, start_), HasSubstr("2 process(es) of the job were stopped by a signal"));
  EXPECT_TRUE(none_is_stopped());
  EXPECT_EQ(stopped.look(true, start_), "");
}

TEST_F(StoppedJob, RanksAloneMayBeStopped) {
  stop({rank_});
  EXPECT_EQ(stopped_.look(false, start_), "");
  EXPECT_EQ(stopped_.look(false, start_ + std::chrono::hours(1)), "") << "of those the watchdog tells";
  EXPECT_NE(stopped_.look(true, start_), "");
  EXPECT_TRUE(none_is_stopped());
}

TEST_F(StoppedJob, AnMpirunAloneIsContinued) {
  stop({job_.process()});
  EXPECT_EQ(stopped_.look(false, start_), "");
  EXPECT_EQ(stopped_.look(false, start_ + std::chrono::seconds(9)), "");
  EXPECT_THAT(stopped_.look(false, start_ + std::chrono::seconds(10)),
              HasSubstr("mpirun (process " + std::to_string(job_.process()) + ") was stopped by a signal"));
  EXPECT_TRUE(none_is_stopped());
}

TEST_F(StoppedJob, IsKilledAfterTheGrace) {
  EXPECT_EQ(stopped_.look(true, start_), "");
  stop({rank_});
  EXPECT_THAT(stopped_.look(true, start_ + std::chrono::seconds(60)), HasSubstr("killed"));
  EXPECT_TRUE(wait_until([&] { return job_.poll().has_value(); })) << "its shell ends with it";
  EXPECT_EQ(job_.ending_signal(), 0);
}

TEST_F(StoppedJob, TheSignalThatEndsMpirunIsKnown) {
  job_.send(SIGKILL);
  ASSERT_TRUE(wait_until([&] { return job_.poll().has_value(); }));
  EXPECT_EQ(job_.ending_signal(), SIGKILL);
  EXPECT_EQ(job_.poll(), 128 + SIGKILL);
  end_tagged(tag_, std::chrono::milliseconds(0));
}

}  // namespace
}  // namespace trireme

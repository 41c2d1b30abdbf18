#include "launcher/records/history.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "launcher/records/record_writer.h"
#include "launcher/supervise/attempt_end.h"
#include "launcher/supervise/lease.h"
#include "launcher/supervise/rank_choice.h"
#include "runtime/base/error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "";
}

class SupervisedFolder : public ::testing::Test {
 protected:
  const testing::TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path();
};

TEST_F(SupervisedFolder, IsReadBackByTheNextSupervisor) {
  {
    History history(root_);
    history.begin({.number = history.next_number(),
                   .num_ranks = 4,
                   .hosts = {"a", "b"},
                   .first_step = 1,
                   .tag = "a#1"});
    history.set_process("12.34@host");
    history.end({.exit_code = 137,
                 .step = 7,
                 .verdict = "rank 1 \xff died\n  while",
                 .seconds = 1.5,
                 .host = "b",
                 .code = ErrorCode::kNoProgress,
                 .system_error = ENOSPC});
    history.begin({.number = history.next_number(), .num_ranks = 2, .first_step = 6, .tag = "a#2"});
  }
  std::ofstream(root_ / "supervisor.jsonl", std::ios::app)
      << R"({"event":"end","atte)";  // the supervisor died while writing this line
  History history(root_);
  ASSERT_EQ(history.attempts().size(), 2u);
  EXPECT_EQ(history.attempts()[0].process, "12.34@host");
  EXPECT_EQ(history.attempts()[0].end->exit_code, 137);
  EXPECT_EQ(history.attempts()[0].end->host, "b");
  EXPECT_EQ(history.attempts()[0].end->code, ErrorCode::kNoProgress);
  EXPECT_EQ(history.attempts()[0].end->system_error, ENOSPC);
  EXPECT_EQ(history.attempts()[0].hosts, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(history.attempts()[1].hosts.empty());
  EXPECT_NE(history.to_text().find("4 rank(s) on a, b from step 1"), std::string::npos);
  EXPECT_EQ(history.attempts()[1].num_ranks, 2);
  EXPECT_EQ(history.attempts()[1].tag, "a#2");
  EXPECT_FALSE(history.attempts()[1].end);
  EXPECT_EQ(history.next_number(), 3);
  history.close("done", "the job is done");
  const History next(root_);
  EXPECT_TRUE(next.attempts().empty());
  EXPECT_EQ(next.next_number(), 3);
}

TEST_F(SupervisedFolder, ADamagedLineIsNamed) {
  std::ofstream(root_ / "supervisor.jsonl") << "{\"event\":\"restart\",\"what\":\"\"}\n{\"event\":\n";
  EXPECT_NE(error_of([&] { History history(root_); }).find("supervisor.jsonl:2: "), std::string::npos);
}

TEST_F(SupervisedFolder, HasOneSupervisorAtATime) {
  {
    Lease first(root_);
    first.renew();
    const std::string error = error_of([&] { Lease second(root_); });
    EXPECT_NE(error.find(fmt::format("process {} on ", ::getpid())), std::string::npos) << error;
  }
  const Lease after(root_);  // does not throw: the first lease was released
}

TEST_F(SupervisedFolder, AnotherHostHasItUntilItsLeaseIsOver) {
  const auto file = root_ / ".supervisor";
  std::ofstream(file) << "4711.1@another-host\n";
  const std::string error = error_of([&] { Lease lease(root_); });
  EXPECT_NE(error.find("process 4711 on another-host"), std::string::npos) << error;
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - 2 * Lease::kLease);
  const Lease lease(root_);
}

TEST_F(SupervisedFolder, LastStepIsOfWholeLines) {
  const auto metrics = root_ / "metrics.jsonl";
  EXPECT_EQ(last_step(metrics), 0);
  std::ofstream(metrics) << "{\"step\":1}\n{\"step\":2}\n{\"step\":3";
  EXPECT_EQ(last_step(metrics), 2);
}

TEST_F(SupervisedFolder, AnEndFollowsFromRecordsWhateverTheirMessages) {
  std::filesystem::create_directories(root_ / "attempts");
  const auto log = root_ / "log";
  std::ofstream(log)
      << "trireme: error: rank 0: of another job\n"
         "mpirun noticed that process rank 1 with PID 12 on node a exited on signal 9 (Killed).\n";
  History history(root_);
  const Attempt attempt{.number = 1, .num_ranks = 2, .first_step = 11, .tag = "1.2@host#1"};
  history.begin(attempt);
  AttemptEnd end(attempt, {root_}, history, nullptr);
  EXPECT_TRUE(end.conclude(137, log, false).verdict.starts_with("mpirun noticed that process rank 1"));
  RecordWriter first({.out = root_, .attempt = attempt.tag, .rank = 0, .host = "host"});
  first.write({.event = RunRecord::Event::kResumed, .step = 4});
  first.write({.event = RunRecord::Event::kVerdict, .time_ns = 1, .message = "zork"});
  RecordWriter second({.out = root_, .attempt = attempt.tag, .rank = 1, .host = "host"});
  second.write({.event = RunRecord::Event::kFailed,
                .time_ns = 2,
                .code = ErrorCode::kNoProgress,
                .message = "blip",
                .facts = {.rank = 1, .system_error = ENOSPC}});
  end.look();
  EXPECT_TRUE(end.is_announced());
  const Attempt::End found = end.conclude(137, log, false);
  EXPECT_EQ(found.verdict, "host host: blip") << "the one that has a culprit";
  EXPECT_EQ(found.code, ErrorCode::kNoProgress);
  EXPECT_EQ(found.system_error, ENOSPC);
  EXPECT_EQ(found.step, 5) << "the one after the checkpoint that it resumed from";
  EXPECT_EQ(end.conclude(75, log, false).verdict, "") << "a planned stop is no failure";
}

TEST_F(SupervisedFolder, TheSupervisorsOwnVerdictGoesBeforeRecords) {
  std::filesystem::create_directories(root_ / "attempts");
  History history(root_);
  const Attempt attempt{.number = 1, .num_ranks = 2, .tag = "1.2@host#1"};
  history.begin(attempt);
  AttemptEnd end(attempt, {root_}, history, nullptr);
  end.announce({.event = RunRecord::Event::kVerdict, .message = "mpirun was killed"});
  end.records().add(
      {.event = RunRecord::Event::kFailed, .reporter = 1, .message = "blip", .facts = {.rank = 1}});
  EXPECT_EQ(end.conclude(137, root_ / "none", false).verdict, "mpirun was killed");
}

TEST(RankChoice, ReadsRanges) {
  EXPECT_EQ(parse_ranks("4").min, 4);
  EXPECT_EQ(parse_ranks("2:4").max, 4);
  for (const char* bad : {"", "0", "4:2", "2:", ":4", "-1", "a", "1:2:3", "99999999999"})
    EXPECT_NE(error_of([&] { parse_ranks(bad); }), "") << bad;
}

}  // namespace
}  // namespace trireme

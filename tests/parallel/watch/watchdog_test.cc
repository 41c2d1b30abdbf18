// Ranks that die, stop or hang are named by the others. Real processes, as signals reach nothing else.
#include "parallel/watch/watchdog.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <future>
#include <thread>

#include "parallel/watch/stall_report.h"

namespace trireme {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::shared_ptr<RankBoard> shared_board(int size) {
  const std::size_t bytes = RankBoard::bytes(size);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return std::make_shared<RankBoard>(std::shared_ptr<void>(memory, [bytes](void* p) { munmap(p, bytes); }),
                                     size);
}

// A process that is rank `slot` and does `act` until it is killed.
class OtherRank {
 public:
  OtherRank(const std::shared_ptr<RankBoard>& board, int slot, const std::function<void(RankStatus&)>& act)
      : board_(board), slot_(slot), process_(fork()) {
    if (process_ == 0) {
      RankStatus status(board, slot, slot);
      act(status);
      status.wait_for(kReady);
      while (true) pause();
    }
    while (board->read(slot).waits_for != kReady) usleep(1000);
  }
  OtherRank(const OtherRank&) = delete;
  OtherRank& operator=(const OtherRank&) = delete;
  ~OtherRank() {
    signal(SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  int process() const { return process_; }
  void signal(int number) const {
    kill(process_, number);
    if (number == SIGSTOP) waitpid(process_, nullptr, WUNTRACED);
  }

 private:
  static constexpr int kReady = 77;  // no rank: says that the process has begun
  std::shared_ptr<RankBoard> board_;
  int slot_;
  int process_;
};

// The watchdog of rank 0, and what it ends the job with.
struct Watched {
  std::shared_ptr<RankStatus> status;
  std::promise<Error> verdict;
  std::unique_ptr<Watchdog> watchdog;

  Watched(const std::shared_ptr<RankBoard>& board, double timeout_s)
      : status(std::make_shared<RankStatus>(board, 0, 0)) {
    watchdog = std::make_unique<Watchdog>(Watchdog::Options{
        .status = status, .timeout_s = timeout_s, .report = {}, .end_job = [this](const Error& error) {
          verdict.set_value(error);
        }});
  }
  Error ending_verdict(int ms = 20000) {
    auto future = verdict.get_future();
    if (future.wait_for(std::chrono::milliseconds(ms)) == std::future_status::ready) return future.get();
    return Error(ErrorCode::kRuntime, "none");
  }
  std::string last_words(int ms = 20000) { return ending_verdict(ms).what(); }
};

TEST(Watchdog, ATighterLimitHoldsInItsScopeAlone) {
  const auto board = shared_board(2);
  Watched watched(board, 600);
  RankStatus other(board, 1, 1);
  watched.watchdog->set_tight_limit(Watchdog::Part::kStep, 0.3, ", learned from steps of up to 0.10 s");
  auto future = watched.verdict.get_future();
  const auto wait_ms = [&](int ms) { return future.wait_for(std::chrono::milliseconds(ms)); };
  watched.status->begin("step 3");
  watched.status->begin_wait();
  EXPECT_EQ(wait_ms(900), std::future_status::timeout);
  watched.status->end_wait();
  {
    const Watchdog::TightScope other_part(watched.watchdog.get(), Watchdog::Part::kEvaluation);
    watched.status->begin_wait();
    EXPECT_EQ(wait_ms(900), std::future_status::timeout);
    watched.status->end_wait();
  }
  const Watchdog::TightScope tight(watched.watchdog.get(), Watchdog::Part::kStep);
  watched.status->begin_wait();
  ASSERT_EQ(wait_ms(20000), std::future_status::ready);
  EXPECT_THAT(future.get().what(),
              HasSubstr("EngineOptions::timeout_s = auto: 0.30 s, learned from steps of up to 0.10 s"));
}

// As in a checkpoint, which may take long; but not when one of the ranks stands still.
TEST(Watchdog, WaitsNoLongerForAStoppedRankThanInAStep) {
  const auto board = shared_board(2);
  const OtherRank other(board, 1, [](RankStatus& status) { status.begin("the checkpoint of step 12"); });
  Watched watched(board, 600);
  watched.watchdog->set_tight_limit(Watchdog::Part::kStep, 0.3, ", learned from steps of up to 0.10 s");
  auto future = watched.verdict.get_future();
  watched.status->begin("the checkpoint of step 12");
  watched.status->begin_wait();
  EXPECT_EQ(future.wait_for(std::chrono::milliseconds(900)), std::future_status::timeout);
  other.signal(SIGSTOP);
  ASSERT_EQ(future.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_THAT(
      future.get().what(),
      HasSubstr(fmt::format("by rank 1 (process {}, stopped by a signal) in the checkpoint of step 12",
                            other.process())));
}

// Its own process is stopped for longer than the limit, as all are on a machine that sleeps.
TEST(Watchdog, LeavesOutTheTimeInWhichItDidNotRunItself) {
  enum Answer : int { kNothing = 0, kTooEarly = 1, kNever = 2, kNotNoticed = 3 };
  const auto board = shared_board(2);
  const int child = fork();
  if (child == 0) {
    Watched watched(board, 1.0);
    const RankStatus other(board, 1, 1);
    watched.status->begin("step 3");
    watched.status->begin_wait();
    auto future = watched.verdict.get_future();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // until it watches
    raise(SIGSTOP);
    if (future.wait_for(std::chrono::milliseconds(400)) == std::future_status::ready) _exit(kTooEarly);
    if (watched.watchdog->paused_s() < 1.0) _exit(kNotNoticed);
    if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) _exit(kNever);
    _exit(kNothing);
  }
  int state = 0;
  waitpid(child, &state, WUNTRACED);
  ASSERT_TRUE(WIFSTOPPED(state));
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  kill(child, SIGCONT);
  waitpid(child, &state, 0);
  ASSERT_TRUE(WIFEXITED(state));
  EXPECT_EQ(WEXITSTATUS(state), kNothing);
}

// A rank in a container of its own: its id, 1, is that of a stranger here, whom nobody may watch or signal.
TEST(RankReading, TheProcessOfAnotherNamespaceIsNotVisible) {
  const auto board = shared_board(2);
  const RankStatus own(board, 0, 0);
  EXPECT_EQ(board->read(0).visible_process(), getpid());
  EXPECT_EQ(board->read(1).visible_process(), 0);
  constexpr int kNotAllowed = 3;
  const int child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWPID) != 0) _exit(kNotAllowed);
    if (fork() == 0) {
      RankStatus status(board, 1, 1);
      _exit(0);
    }
    wait(nullptr);
    _exit(0);
  }
  int end = 0;
  waitpid(child, &end, 0);
  if (WEXITSTATUS(end) == kNotAllowed) GTEST_SKIP() << "this user may not make process namespaces (root may)";
  EXPECT_EQ(board->read(1).process, 1);
  EXPECT_EQ(board->read(1).visible_process(), 0);
}

TEST(RankBoard, ShowsWhatARankDoesAndCutsLongTexts) {
  const auto board = RankBoard::in_process(2);
  RankStatus status(board, 1, 7);
  EXPECT_EQ(board->read(1).rank, 7);
  EXPECT_EQ(board->read(1).process, getpid());
  EXPECT_FALSE(board->read(1).busy);
  for (const std::size_t length : {0, 1, 7, 8, 9, 239, 240}) {
    status.begin(std::string(length, 'x'));
    EXPECT_EQ(board->read(1).text, std::string(length, 'x'));
    EXPECT_TRUE(board->read(1).busy);
  }
  status.begin(std::string(1000, 'y'));
  EXPECT_EQ(board->read(1).text, std::string(RankBoard::kTextBytes, 'y'));
  status.begin("step 3");
  status.begin_wait();
  status.begin_wait();
  status.end_wait();
  EXPECT_TRUE(board->read(1).waits);
  status.end_wait();
  EXPECT_FALSE(board->read(1).waits);
  status.end_action();
  EXPECT_FALSE(board->read(1).busy);
  EXPECT_EQ(board->read(1).text, "step 3");  // the last that is known
  EXPECT_EQ(board->read(0).rank, 0);
  EXPECT_TRUE(board->claim_last_word());
  EXPECT_FALSE(board->claim_last_word());
}

TEST(Watchdog, NamesARankWhoseProcessIsKilledWithItsAction) {
  const auto board = shared_board(3);
  const RankStatus bystander(board, 1, 1);
  const OtherRank other(board, 2,
                        [](RankStatus& status) { status.begin("step 17, action 5 (Forward unit 3)"); });
  Watched rank0(board, 0);  // without a limit of time
  other.signal(SIGKILL);
  const Error verdict = rank0.ending_verdict();
  EXPECT_THAT(verdict.what(), StartsWith(fmt::format("rank 2 (process {}) died in step 17, action 5 (Forward "
                                                     "unit 3)",
                                                     other.process())));
  EXPECT_EQ(verdict.code(), ErrorCode::kCommunication);
  EXPECT_EQ(verdict.facts(), (ErrorFacts{.rank = 2, .action = "step 17, action 5 (Forward unit 3)"}));
}

TEST(Watchdog, SaysNothingOfARankThatLeavesOnPurpose) {
  const auto board = shared_board(2);
  const OtherRank other(board, 1, [](RankStatus& status) { status.end(); });
  Watched rank0(board, 0);
  other.signal(SIGKILL);
  EXPECT_EQ(rank0.last_words(300), "none");
}

// It waits like the others: nothing but its process tells.
TEST(Watchdog, NamesARankThatIsStoppedInsideOfACollective) {
  const auto board = shared_board(2);
  const OtherRank other(board, 1, [](RankStatus& status) {
    status.begin("step 4, action 9 (ReduceGrad unit 0)");
    status.begin_wait();
  });
  other.signal(SIGSTOP);
  Watched rank0(board, 0.2);
  const Watchdog::Scope action(rank0.watchdog.get(), "step 4, action 10 (GradNorm)");
  rank0.status->begin_wait();
  EXPECT_THAT(rank0.last_words(),
              ContainsRegex(
                  fmt::format("held up .EngineOptions::timeout_s = 0.2. by rank 1 .process {}, stopped by a "
                              "signal. in step 4, action 9 .ReduceGrad unit 0., waiting.* for .* s, "
                              "while\n  rank 0 in step 4, action 10 .GradNorm., waiting for others",
                              other.process())));
}

TEST(Watchdog, NamesTheRankThatWaitsForNobody) {
  const auto board = RankBoard::in_process(3);
  RankStatus one(board, 1, 1), two(board, 2, 2);
  one.begin("the pause between steps 3 and 4");
  two.begin("step 4, action 0 (Forward unit 0)");
  two.begin_wait();
  two.wait_for(1);
  Watched rank0(board, 0.2);
  const Watchdog::Scope pause(rank0.watchdog.get(), "the pause between steps 3 and 4");
  rank0.status->begin_wait();
  const Error verdict = rank0.ending_verdict();
  const std::string message = verdict.what();
  EXPECT_EQ(verdict.facts(), (ErrorFacts{.field = "EngineOptions::timeout_s",
                                         .value = "0.2",
                                         .rank = 1,
                                         .action = "the pause between steps 3 and 4"}));
  EXPECT_THAT(message,
              ContainsRegex("by rank 1 in the pause between steps 3 and 4 for .* s, while\n  rank 0 in"));
  EXPECT_THAT(message, HasSubstr("\n  rank 2 in step 4, action 0 (Forward unit 0), waiting for rank 1 for"));
}

TEST(Watchdog, BlamesNobodyHereWhenAllRanksOfTheMachineWait) {
  const auto board = RankBoard::in_process(2);
  RankStatus one(board, 1, 3);
  one.begin("step 1, action 0 (GradNorm)");
  one.begin_wait();
  Watched rank0(board, 0.2);
  const Watchdog::Scope action(rank0.watchdog.get(), "step 1, action 0 (GradNorm)");
  rank0.status->begin_wait();
  const Error verdict = rank0.ending_verdict();
  const std::string message = verdict.what();
  EXPECT_EQ(verdict.facts().rank, -1);
  EXPECT_EQ(verdict.facts().host, "");
  EXPECT_EQ(
      stall_of(*board, "0.2", "", {{.address = "10.0.0.2", .silent_s = 1.5, .num_resent = 3}}).facts().host,
      "10.0.0.2");
  EXPECT_THAT(
      message,
      StartsWith("all ranks of this machine wait (EngineOptions::timeout_s = 0.2):\n  rank 0 in step 1"));
  EXPECT_THAT(message, Not(HasSubstr("held up")));
}

TEST(Watchdog, AnOuterScopeIsWatchedAgainAfterTheInnerOne) {
  Watched alone(RankBoard::in_process(1), 0.2);
  const Watchdog::Scope outer(alone.watchdog.get(), "the evaluation after step 3");
  { const Watchdog::Scope inner(alone.watchdog.get(), "evaluation, action 0 (Forward unit 0)"); }
  EXPECT_THAT(alone.last_words(), ContainsRegex("by rank 0 in the evaluation after step 3 for [0-9.]+ s$"));
}

TEST(Watchdog, WatchesAWaitOutsideOfScopesToo) {
  const auto board = RankBoard::in_process(2);
  RankStatus one(board, 1, 1);
  Watched rank0(board, 0.2);
  rank0.status->begin_wait();
  EXPECT_THAT(rank0.last_words(),
              ContainsRegex("by rank 1 before its first action for .* s, while\n  rank 0"));
}

TEST(Watchdog, MissesARankThatHasNotArrived) {
  const auto board = RankBoard::in_process(3);
  RankStatus two(board, 2, 6);
  two.begin("MPI_Init");
  two.begin_wait();
  const auto status = std::make_shared<RankStatus>(board, 0, 4);
  std::promise<Error> verdict;
  Watchdog watchdog({.status = status, .timeout_s = 0.2, .report = {}, .end_job = [&](const Error& error) {
                       verdict.set_value(error);
                     }});
  const Watchdog::Scope scope(&watchdog, "MPI_Init");
  status->begin_wait();
  const Error missed = verdict.get_future().get();
  EXPECT_EQ(missed.facts().rank, 5);
  EXPECT_THAT(
      missed.what(),
      ContainsRegex(
          "held up .EngineOptions::timeout_s = 0.2. by process 1 of this machine .rank 5 if .*, which "
          "has not arrived, while\n  rank 4 in MPI_Init, waiting for others"));
}

TEST(Watchdog, SeesTheDeathOfARankThatArrivedLater) {
  const auto board = shared_board(2);
  Watched rank0(board, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const OtherRank other(board, 1, [](RankStatus& status) { status.begin("MPI_Init"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  other.signal(SIGKILL);
  EXPECT_THAT(rank0.last_words(),
              StartsWith(fmt::format("rank 1 (process {}) died in MPI_Init", other.process())));
}

TEST(Watchdog, NamesARankThatIsStoppedOnItsWayOut) {
  const auto board = shared_board(2);
  const OtherRank other(board, 1, [](RankStatus& status) {
    status.begin("the exit");
    status.finish();
    status.end();
  });
  other.signal(SIGSTOP);
  Watched rank0(board, 0.2);
  const Watchdog::Scope scope(rank0.watchdog.get(), "the exit");
  rank0.status->finish();
  EXPECT_TRUE(board->all_finished());
  rank0.status->begin_wait();
  EXPECT_THAT(
      rank0.last_words(),
      ContainsRegex(fmt::format("by rank 1 .process {}, stopped by a signal. in the exit", other.process())));
}

TEST(Watchdog, IsOneForARank) {
  const auto board = RankBoard::in_process(1);
  Watched first(board, 0);
  std::promise<Error> verdict;
  Watchdog second(
      {.status = first.status, .timeout_s = 0.1, .report = {}, .end_job = [&](const Error& error) {
         verdict.set_value(error);
       }});
  const Watchdog::Scope scope(&second, "step 1");
  EXPECT_EQ(verdict.get_future().wait_for(std::chrono::milliseconds(400)), std::future_status::timeout);
  first.watchdog->set_limit(0.1, 0, ", its default");
  EXPECT_THAT(first.last_words(),
              StartsWith("the job is held up (EngineOptions::timeout_s = 0.1, its default) by rank 0"));
}

TEST(Watchdog, TakesItsTimeOutsideOfScopes) {
  Watched alone(RankBoard::in_process(1), 0.1);
  { const Watchdog::Scope action(alone.watchdog.get(), "step 1, action 0 (Forward unit 0)"); }
  EXPECT_EQ(alone.last_words(500), "none");
}

}  // namespace
}  // namespace trireme

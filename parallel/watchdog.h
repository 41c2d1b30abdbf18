// Ends a job that cannot go on, and says who is to blame: a rank whose process is gone, or one that takes
// longer for an action than allowed.
//
// Each rank shows what it does on the RankBoard of its machine, and looks there when it is late itself or a
// process is gone. So the culprit need not answer. One rank of a machine speaks for all of them; ranks of
// other machines speak for theirs: a machine that is gone as a whole is named by nobody but the launcher.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "parallel/comm/rank_board.h"
#include "parallel/process_watch.h"

namespace trireme {

class Watchdog {
 public:
  struct Options {
    std::shared_ptr<RankStatus> status;  // of this rank
    double timeout_s = 0;                // 0: no limit; deaths are noticed all the same
    double grace_s = 0;                  // after a report, for other machines to report, too
    std::function<void(const std::string& message)> report;
    std::function<void(const std::string& message)> end_job;  // from the watchdog's own thread
  };
  /// Starts a thread that sleeps while all is well. The ranks of the machine have entered the board.
  explicit Watchdog(Options options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// While it lives, something is under way in which nothing may take longer than the timeout: neither it nor
  /// a wait in it. "step 17, action 5 (Forward unit 3 micro-batch 1)". Scopes nest: the inner one counts.
  class Scope {
   public:
    Scope(Watchdog* watchdog, std::string text);  // null: watches nothing
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    Watchdog* watchdog_;
    std::string text_;
    Scope* outer_ = nullptr;
  };

  /// Says which rank the action under way waits for, to send or to receive; -1: no single one.
  void wait_for(int rank) { options_.status->wait_for(rank); }

 private:
  void run();
  void report_death(int place);
  void report_stall(const RankReading& own);

  const Options options_;
  std::vector<int> places_;  // on the board, of the processes that are watched
  ProcessWatch processes_;
  Scope* innermost_ = nullptr;  // of the rank's own thread
  std::atomic<bool> end_ = false;
  std::thread thread_;  // last: it uses all of the above
};

class Communicator;

/// Watches over a rank among those of `comm`, whose abort ends the job; null where nobody could be named: one
/// rank on this machine and no timeout, or ranks that show nothing.
std::unique_ptr<Watchdog> watch_over(const std::shared_ptr<Communicator>& comm, double timeout_s);

}  // namespace trireme

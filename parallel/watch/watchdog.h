// Ends a job that cannot go on, and says who is to blame: a rank whose process is gone, or one that takes
// longer for an action than allowed.
//
// Each rank shows what it does on the RankBoard of its machine, and looks there when it is late itself or a
// process is gone. So the culprit need not answer. One rank of a machine speaks for all of them; ranks of
// other machines speak for theirs. A machine that is gone as a whole is named by those whose messages it does
// not acknowledge ([Note: silent hosts] in silent_peers.h), else by nobody but the launcher.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "parallel/comm/rank_board.h"
#include "parallel/watch/process_watch.h"
#include "runtime/base/error.h"

namespace trireme {

class Watchdog {
 public:
  struct Options {
    std::shared_ptr<RankStatus> status;  // of this rank
    double timeout_s = 0;                // 0: no limit; deaths are noticed all the same
    double grace_s = 0;                  // after a report, for other machines that answer to report, too
    std::string limit_note = {};         // beside the limit in messages: ", its default"
    std::function<void(const Error& verdict)> report;
    std::function<void(const Error& verdict)> end_job;  // from the watchdog's own thread
  };
  /// Starts a thread that sleeps while all is well, once all ranks of the machine have entered the board.
  /// Does nothing where another watchdog watches over the rank already.
  explicit Watchdog(Options options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// While it lives, something is in progress in which nothing may take longer than the timeout: neither it
  /// nor a wait in it. "step 17, action 5 (Forward unit 3 micro-batch 1)". Scopes nest: the inner one counts.
  class Scope {
   public:
    Scope(Watchdog* watchdog, std::string text);  // null: shows nothing
    Scope(RankStatus* status, std::string text);  // whoever watches
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    RankStatus* status_;
  };

  /// Says which rank the current action waits for, to send or to receive; -1: no single one.
  void wait_for(int rank) { options_.status->wait_for(rank); }

  /// The limit from now on.
  void set_limit(double timeout_s, double grace_s, const std::string& note);

  /// Parts of a run that may have tighter limits, learned from how long they took.
  enum class Part : std::uint8_t { kStep, kEvaluation, kCheckpoint };
  static constexpr std::size_t kNumParts = 3;
  /// A tighter limit, which holds in a TightScope; `note` says in messages where it comes from.
  void set_tight_limit(Part part, double timeout_s, const std::string& note);
  /// While it lives, the part's tighter limit holds, where there is one. Costs a store; scopes do not nest.
  class TightScope {
   public:
    TightScope(Watchdog* watchdog, Part part) : watchdog_(watchdog) {  // null: changes nothing
      if (watchdog_ != nullptr) watchdog_->part_ = static_cast<int>(part);
    }
    TightScope(const TightScope&) = delete;
    TightScope& operator=(const TightScope&) = delete;
    ~TightScope() {
      if (watchdog_ != nullptr) watchdog_->part_ = kNoPart;
    }

   private:
    Watchdog* watchdog_;
  };

  /// Seconds so far in which this process did not run: [Note: paused ranks]. Only where there is a limit.
  double paused_s() const { return paused_s_; }

 private:
  struct Limit {
    double timeout_s, grace_s;
    std::string note;
    bool is_learned = false;
  };

  struct Pause {
    std::chrono::steady_clock::time_point end;
    double seconds = 0;
  };
  static constexpr int kNoPart = -1;

  void run();
  void note_pause(std::chrono::steady_clock::time_point before, double expected_s);
  double running_s(double for_s) const;
  void watch_newcomers();
  void report_death(int slot);
  void report_stall(const RankReading& own, const Limit& limit);
  void wake_stopped() const;
  Limit limit() const;

  const Options options_;
  mutable std::mutex mutex_;
  Limit limit_;                                               // under the mutex
  std::array<std::optional<Limit>, kNumParts> tight_limits_;  // likewise
  std::atomic<int> part_ = kNoPart;                           // whose tight limit holds
  std::atomic<double> paused_s_ = 0;
  std::deque<Pause> pauses_;  // the last ones
  std::vector<bool> known_;   // [slot on the board]
  std::vector<int> watched_;  // slots of the processes that are watched
  ProcessWatch processes_;
  std::atomic<bool> end_ = false;
  std::thread thread_;  // last: it uses all of the above
};

/// Seconds in which ranks of other machines report, too, after one has.
double grace_for_machines(bool several);

class Communicator;

/// Watches over a rank among those of `comm`, whose abort ends the job; null where nobody could be named: one
/// rank on this machine and no timeout, or ranks that show nothing.
std::unique_ptr<Watchdog> watch_over(const std::shared_ptr<Communicator>& comm, double timeout_s);

}  // namespace trireme

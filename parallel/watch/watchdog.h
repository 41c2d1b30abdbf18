// Ends a job that cannot continue, and names the rank at fault: a rank whose process has died, or one that
// exceeds the time limit of an action.
//
// Each rank writes its actions to the RankBoard of its machine. It reads the board when it is late itself or
// a process has died, so the rank at fault need not answer. One rank per machine reports for all ranks of the
// machine. A machine that is down as a whole is named by the ranks whose messages it does not acknowledge
// ([Note: silent hosts] in silent_peers.h), else only by the launcher.
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
    double timeout_s = 0;                // 0: no limit; deaths are still detected
    double grace_s = 0;                  // delay after a report, so that other machines can report, too
    std::string limit_note = {};         // appended to the limit in messages: ", its default"
    std::function<void(const Error& verdict)> report;
    std::function<void(const Error& verdict)> end_job;  // called from the watchdog's thread
    bool every_rank_ends = false;                       // end_job ends the work of this rank only
  };
  /// Starts a thread that sleeps while all is well, once all ranks of the machine have entered the board.
  /// Does nothing if the rank already has a watchdog.
  explicit Watchdog(Options options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// Marks work in progress: "step 17, action 5 (Forward unit 3 micro-batch 1)". Neither the work nor a wait
  /// in it may exceed the timeout. Scopes nest: the innermost counts.
  class Scope {
   public:
    Scope(Watchdog* watchdog, std::string text);  // null: no effect
    Scope(RankStatus* status, std::string text);  // for any watchdog
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    RankStatus* status_;
  };

  /// Sets the rank that the current action waits for, to send or to receive; -1: no single one.
  void wait_for(int rank) { options_.status->wait_for(rank); }

  /// Sets the limit.
  void set_limit(double timeout_s, double grace_s, const std::string& note);

  /// Parts of a run that may have tighter limits, learned from their durations.
  enum class Part : std::uint8_t { kStep, kEvaluation, kCheckpoint };
  static constexpr std::size_t kNumParts = 3;
  /// Sets a tighter limit, active in a TightScope; `note` gives its origin in messages.
  void set_tight_limit(Part part, double timeout_s, const std::string& note);
  /// While it exists, the part's tighter limit applies, if set. Costs a store; scopes do not nest.
  class TightScope {
   public:
    TightScope(Watchdog* watchdog, Part part) : watchdog_(watchdog) {  // null: no effect
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

  /// Seconds in which this process was paused so far: [Note: paused ranks]. Only measured with a limit.
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
  Limit limit_;                                               // guarded by the mutex
  std::array<std::optional<Limit>, kNumParts> tight_limits_;  // guarded by the mutex
  std::atomic<int> part_ = kNoPart;                           // the part whose tight limit applies
  std::atomic<double> paused_s_ = 0;
  std::deque<Pause> pauses_;  // the latest
  std::vector<bool> known_;   // [slot on the board]
  std::vector<int> watched_;  // slots of watched processes
  ProcessWatch processes_;
  std::atomic<bool> end_ = false;
  std::thread thread_;  // last: it uses all members above
};

/// Seconds for ranks of other machines to report, after one has.
double grace_for_machines(bool several);

class Communicator;

/// Creates a watchdog for this rank of `comm`; comm->abort() ends the job. Null if it could name no rank: one
/// rank on this machine and no timeout, or ranks without a status.
std::unique_ptr<Watchdog> watch_over(const std::shared_ptr<Communicator>& comm, double timeout_s);

}  // namespace trireme

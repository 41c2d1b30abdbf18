// Ends a job that hangs: every rank watches its own actions, and one that takes longer than allowed is
// reported.
//
// Ranks that wait for a rank that stalls run out of time together with it: each says in which action it is
// and for whom it waits, so the one that waits for nobody, or says nothing, is the culprit. Then the job
// ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace trireme {

class Watchdog {
 public:
  struct Options {
    double timeout_s = 0;
    double grace_s = 2;  // for the other ranks to speak, too
    std::function<void(const std::string& message)> report;
    std::function<void(const std::string& message)> end_job;  // from the watchdog's own thread
  };
  /// Starts a thread that sleeps while nothing is late.
  explicit Watchdog(Options options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// Describes what the rank is in, when it is late; called on the watchdog's thread, while the action lasts.
  using Describe = std::function<std::string()>;

  /// While it lives, something is under way that must not take longer than the timeout. Scopes do not nest.
  class Scope {
   public:
    Scope(Watchdog* watchdog, Describe describe);  // null: watches nothing
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    Watchdog* watchdog_;
  };

  /// Says that the action under way waits for another rank, to send or to receive; -1: no longer.
  void wait_for(int rank);

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  std::string late_message() const;

  const Options options_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Describe describe_;  // null: nothing is under way
  Clock::time_point since_;
  int waits_for_ = -1;
  bool end_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace trireme

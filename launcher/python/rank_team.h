// The ranks of a session in this process: they wait for work, run it together, and may pause in it.
//
// [Note: threads of a session] The caller's thread runs rank 0 itself, because waking a thread and waiting
// for it costs more than a small step. Other ranks have threads. Rank 0 has a thread for work that pauses,
// and in a job of several processes, where a dead process would block the caller: only another thread can
// then return to it.
//
// Waking a thread takes up to 50 microseconds, longer than a small step. So a thread that waits for the next
// step, or for the end of this one, spins first, for about as long as a wake takes: at most twice the time of
// the better choice. Ranks that share cores do not spin.
//
// A handler must not interrupt a computing thread ([Note: a thread for signals] in
// launcher/train/stop_request.cc). So the ranks' threads block all signals, and so does the caller while it
// computes. A caller that only waits looks for signals meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "parallel/comm/communicator.h"
#include "runtime/base/error.h"

namespace trireme {

class RankTeam {
 public:
  using Work = std::function<void(int rank)>;
  /// Called by a waiting caller about twenty times a second.
  using Poll = std::function<void()>;
  /// The thread of rank 0 in run().
  enum class FirstRank : std::uint8_t { kOnCaller, kOnThread };

  /// One rank for each communicator. `spin`: how long an idle thread spins before it sleeps.
  RankTeam(std::vector<std::shared_ptr<Communicator>> comms, FirstRank first, std::chrono::microseconds spin);
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;
  /// No work may be left: see wait(). Not after give_up(), since the ranks may use the team until the process
  /// ends.
  ~RankTeam();

  int size() const { return static_cast<int>(comms_.size()); }
  const std::shared_ptr<Communicator>& comm(int rank) const { return comms_[static_cast<std::size_t>(rank)]; }

  /// Runs `work` on every rank, and returns when all are done. Rethrows the first failure. An AgreedError
  /// leaves the team as it was. After any other failure, later calls throw it again: the ranks may differ.
  /// Call while nothing is started, or while it is paused.
  void run(const Work& work, const Poll& poll = {});

  // Work that pauses. One at a time:
  /// Begins `work` on every rank.
  void start(Work work);
  /// Returns true when all ranks pause, false when all are done. Rethrows failures as run().
  bool wait(const Poll& poll);
  /// Continues after a pause; wait() must follow.
  void resume();
  /// Called by the started work on every rank. Returns after resume().
  void pause(int rank);

  /// Every waiting and later call throws `verdict`, although the ranks may wait for ever: another process of
  /// the job has ended. From any thread.
  void give_up(const Error& verdict);
  /// The failure after which the ranks may differ.
  std::optional<Error> broken() const;

 private:
  struct Command {
    Work work;  // empty: the loop that serves commands returns
    int first = 0, left = 0;
    std::atomic<int> num_done = 0;  // counted after the mutex is free: for a caller that spins
  };
  void add_thread(int rank);
  void serve(int rank);
  void execute(Command& command, int rank);
  std::shared_ptr<Command> post(Work work, int first = 0);
  void wait_until(const std::function<bool()>& holds, const Poll& poll);
  void throw_failure();

  const std::vector<std::shared_ptr<Communicator>> comms_;
  const FirstRank first_;
  const std::chrono::microseconds spin_;
  std::atomic<std::uint64_t> announced_ = 0;  // num_posted_, once the mutex is free: for ranks that spin

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable posted_, changed_;
  std::shared_ptr<Command> command_;  // the last one that was posted
  std::shared_ptr<Command> started_;  // null: none
  std::uint64_t num_posted_ = 0;
  std::vector<std::uint64_t> num_seen_;  // by rank
  int num_paused_ = 0;
  bool given_up_ = false;
  std::optional<Error> failure_;  // of the work in progress
  std::optional<Error> broken_;

  std::vector<std::thread> threads_;  // last: they use all members above
};

}  // namespace trireme

// Threads of this process as the ranks of a session: they wait for work, run it together, and may pause in
// it.
//
// [Note: signals of a session] A handler must not interrupt a computing thread ([Note: a thread for signals]
// in launcher/train/stop_request.cc). So ranks are threads that block all signals, even a single rank. The
// caller's thread only waits, and looks for signals meanwhile.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "parallel/comm/local.h"
#include "runtime/base/error.h"

namespace trireme {

class RankTeam {
 public:
  using Work = std::function<void(int rank)>;
  /// Called by a waiting caller about twenty times a second.
  using Poll = std::function<void()>;

  explicit RankTeam(int num_ranks);
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;
  /// No work may be left: see wait().
  ~RankTeam();

  int size() const { return world_.size(); }
  const std::shared_ptr<Communicator>& comm(int rank) const { return comms_[static_cast<std::size_t>(rank)]; }

  /// Runs `work` on every rank, and returns when all are done. Rethrows the first failure. An AgreedError
  /// leaves the team as it was. After any other failure, later calls throw it again: the ranks may differ.
  /// Call while nothing is started, or while it is paused.
  void run(Work work, const Poll& poll = {});

  // Work that pauses. One at a time:
  /// Begins `work` on every rank.
  void start(Work work);
  /// Returns true when all ranks pause, false when all are done. Rethrows failures as run().
  bool wait(const Poll& poll);
  /// Continues after a pause; wait() must follow.
  void resume();
  /// Called by the started work on every rank. Returns after resume().
  void pause(int rank);

 private:
  struct Command {
    Work work;  // empty: the loop that serves commands returns
    int left = 0;
  };
  void serve(int rank);
  void execute(Command& command, int rank);
  std::shared_ptr<Command> post(Work work);
  void wait_until(const std::function<bool()>& holds, const Poll& poll);
  void throw_failure();

  const LocalWorld world_;
  std::vector<std::shared_ptr<Communicator>> comms_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable posted_, changed_;
  std::shared_ptr<Command> command_;  // the last one that was posted
  std::shared_ptr<Command> started_;  // null: none
  std::uint64_t num_posted_ = 0;
  std::vector<std::uint64_t> num_seen_;  // by rank
  int num_paused_ = 0;
  std::optional<Error> failure_;  // of the work in progress
  std::optional<Error> broken_;   // the failure after which the ranks may differ

  std::vector<std::thread> threads_;  // last: they use all members above
};

}  // namespace trireme

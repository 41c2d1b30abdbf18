// Matches the calls of the threads that act as ranks of one LocalWorld. The last rank to post a call carries
// it out.
//
// [Note: local ranks never hang] Every wait is entered here, and only ranks post. So when each unfinished
// rank is blocked in a wait, no call can ever complete: a deadlock, detected exactly and at once, without a
// watchdog. This requires one thread per rank, as communicator.h demands. If ranks disagree about a call, the
// later one to post detects it. In both cases, and when a rank fails, the first failure is kept, and every
// pending and later call throws it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "parallel/comm/local_exchange.h"
#include "runtime/base/error.h"

namespace trireme {

struct LocalGroup;

/// One call in which several ranks take part.
struct LocalMeeting {
  enum class State : std::uint8_t {
    kGathering,  // some ranks have not posted yet
    kRunning,    // all have posted; the last one is moving the data
    kDone,
  };

  CallSignature signature;
  std::string where;            // "call 3 of group [0, 2]", "rank 0 to rank 1, tag 7"
  int first_rank = 0;           // world rank that posted first
  std::vector<CallPart> parts;  // by rank in the group; for a message {sender, receiver}
  std::size_t num_arrived = 0;
  State state = State::kGathering;
  std::condition_variable changed;

  // Results.
  std::vector<std::string> texts;                   // all_gather_strings
  std::vector<std::byte> values;                    // all_gather_values
  std::vector<std::shared_ptr<LocalGroup>> groups;  // split: the new group of each member
  std::vector<int> members;                         // split: the rank of each member in it
};

/// A group of ranks and its incomplete calls. Guarded by the board's mutex.
struct LocalGroup {
  explicit LocalGroup(std::vector<int> ranks)
      : world_ranks(std::move(ranks)), num_calls(world_ranks.size()) {}

  const std::vector<int> world_ranks;
  std::vector<std::int64_t> num_calls;                                // collectives posted, by member
  std::map<std::int64_t, std::shared_ptr<LocalMeeting>> collectives;  // by number
  struct Lane {
    std::deque<std::shared_ptr<LocalMeeting>> waiting;  // all sends, or all receives
  };
  std::map<std::tuple<int, int, int>, Lane> lanes;  // messages by (sender, receiver, tag)
};

struct LocalFailure {
  int rank = 0;
  Error error;
};

class LocalBoard {
 public:
  explicit LocalBoard(int num_ranks);

  const std::shared_ptr<LocalGroup>& world() const { return world_; }

  /// Adds `part` to the group's next collective. Carries it out if this is the last rank. Throws
  /// Error(kCommunication) if the job has failed; fails the job if ranks disagree about the call.
  std::shared_ptr<LocalMeeting> post_collective(LocalGroup& group, int member, const CallSignature& signature,
                                                CallPart part);
  /// The same for one end of a message, by signature.kind.
  std::shared_ptr<LocalMeeting> post_message(LocalGroup& group, int member, int peer, int tag,
                                             const CallSignature& signature, CallPart part);
  /// Blocks until the meeting is done. Throws Error(kCommunication) if the job fails first.
  void wait(LocalMeeting& meeting, int world_rank);

  /// Fails the job; only the first failure counts.
  void fail(LocalFailure failure) noexcept;
  /// Call when a rank makes no more calls.
  void finish(int world_rank) noexcept;
  std::optional<LocalFailure> failure() const;

  /// The status line of a rank on the board.
  const std::shared_ptr<RankStatus>& status(int world_rank) const {
    return statuses_[static_cast<std::size_t>(world_rank)];
  }

 private:
  struct RankState {
    LocalMeeting* waits_for = nullptr;
    bool finished = false;
  };

  void throw_if_failed() const;
  void fail_locked(LocalFailure failure);
  [[noreturn]] void disagree(const LocalMeeting& meeting, int world_rank, const CallSignature& signature);
  void carry_out(std::unique_lock<std::mutex>& lock, LocalMeeting& meeting, const LocalGroup& group,
                 int world_rank);
  void fail_if_stuck(int world_rank);

  mutable std::mutex mutex_;
  std::shared_ptr<LocalGroup> world_;
  std::vector<RankState> ranks_;
  std::vector<std::shared_ptr<RankStatus>> statuses_;
  std::optional<LocalFailure> failure_;
};

}  // namespace trireme

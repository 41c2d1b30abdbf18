// The ranks of an attempt that run on the supervisor's own host, seen from outside: what ends the attempt is
// known at once, where mpirun holds the output of its ranks back until it has ended them all.
//
// [Note: seen from outside] The ranks of a machine share memory with what each of them is in
// (parallel/comm/rank_board.h), and with the message of the one that ends the job. It is found by the tag of
// their processes, and it is still there when they are gone. The first rank that is gone without having said
// that it leaves has died, unless another one has ended the job before: then the message tells. Ranks of
// other hosts, and of other process namespaces, are not seen; of them mpirun tells.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/comm/board_memory.h"
#include "parallel/watch/process_watch.h"

namespace trireme {

class RankWatch {
 public:
  /// `tag` of the attempt's processes: job_process.h.
  RankWatch(std::string tag, int num_ranks);

  /// Waits for so long, or until a rank is gone. Once: what ends the attempt, with host and rank, and for a
  /// rank that died what it was in. Nothing while all is well, and where the attempt ends in good order.
  std::optional<std::string> wait(std::chrono::milliseconds patience);

 private:
  struct Place {
    std::size_t board = 0;
    int slot = 0;
  };
  using Clock = std::chrono::steady_clock;

  void look_for_ranks();
  void watch_newcomers();
  std::optional<std::string> last_word() const;
  bool was_ended_by_a_rank() const;
  std::optional<std::string> judge(const Place& place) const;

  const std::string tag_, host_;
  const int num_ranks_;
  std::set<std::uint64_t> known_;
  std::vector<SharedBoard> boards_;
  std::vector<std::vector<bool>> entered_;  // [board][slot]
  std::vector<Place> watched_;              // in the order of processes_
  ProcessWatch processes_;
  Clock::time_point next_look_{};
  bool is_over_ = false;  // what ends the attempt is known, or one of its ranks has left
};

}  // namespace trireme

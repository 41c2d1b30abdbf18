// The ranks of an attempt that run on the supervisor's own host, seen from outside: what ends the attempt is
// known at once, where mpirun holds the output of its ranks back until it has ended them all.
//
// [Note: seen from outside] The ranks of a machine share memory with what each of them is in
// (parallel/comm/rank_board.h). It is found by the tag of their processes, and it is still there when they
// are gone. The first rank that is gone without having noted that it leaves has died, unless another one has
// ended the job before: that one has written a record (launcher/records). Ranks of other hosts, and of other
// process namespaces, are not seen; mpirun notices their end. Where there are such ranks, one that is gone
// here may have been ended because of one there: then only records count.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/records/run_record.h"
#include "parallel/comm/rank_board.h"
#include "parallel/watch/process_watch.h"

namespace trireme {

class RankWatch {
 public:
  /// `tag` of the attempt's processes: job_process.h.
  RankWatch(std::string tag, int num_ranks);

  /// Waits for so long, or until a rank is gone. Returns a verdict on the first rank that died, with host,
  /// rank and action, once. Nothing while all is well, and where the attempt ends in good order or by a rank.
  std::optional<RunRecord> wait(std::chrono::milliseconds patience);

 private:
  struct Place {
    std::size_t board = 0;
    int slot = 0;
  };
  using Clock = std::chrono::steady_clock;

  void look_for_ranks();
  void watch_newcomers();
  bool was_ended_by_a_rank() const;
  std::optional<RunRecord> judge(const Place& place) const;

  const std::string tag_, host_;
  const int num_ranks_;
  std::set<std::uint64_t> known_;
  std::vector<std::shared_ptr<RankBoard>> boards_;
  std::vector<std::vector<bool>> entered_;  // [board][slot]
  std::vector<Place> watched_;              // in the order of processes_
  ProcessWatch processes_;
  Clock::time_point next_look_{};
  bool is_over_ = false;  // what ends the attempt is known, or one of its ranks has left
};

}  // namespace trireme

// Watches the ranks of an attempt on the supervisor's host from outside. It sees a death at once, whereas
// mpirun withholds the output of its ranks until it has ended all of them.
//
// [Note: seen from outside] The ranks of a machine share memory that holds each rank's current action
// (parallel/comm/rank_board.h). The supervisor finds it by the tag of their processes, and it remains
// readable when they are gone. The first rank that is gone without having marked that it left has died,
// unless another rank ended the job before; that rank has written a record (launcher/records). Ranks on other
// hosts or in other process namespaces are not visible; mpirun detects their end. If there are any, they may
// be the reason for a death here, so then only records count.
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
  /// `tag`: of the attempt's processes, see job_process.h.
  RankWatch(std::string tag, int num_ranks);

  /// Waits for `patience`, or until a rank is gone. Returns one verdict on the first rank that died, with
  /// host, rank and action. Null otherwise, also if the attempt ended normally or was ended by a rank.
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
  std::vector<Place> watched_;              // same order as in processes_
  ProcessWatch processes_;
  Clock::time_point next_look_{};
  bool is_over_ = false;  // the cause of the end is known, or a rank has left
};

}  // namespace trireme

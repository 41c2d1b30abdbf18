#include "launcher/host/clock_difference.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

namespace trireme {

double system_clock_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::vector<ClockDifference> measure_clocks(Communicator& comm, const std::function<double()>& clock) {
  constexpr int kRounds = 50;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<ClockDifference> differences(static_cast<std::size_t>(comm.size()), {-kInfinity, kInfinity});
  for (int round = 0; round < kRounds; ++round) {
    std::array<double, 2> mine{};  // before and after
    mine[0] = clock();
    comm.all_gather_value(mine[0]);
    mine[1] = clock();
    const std::vector<std::array<double, 2>> all = comm.all_gather_value(mine);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      ClockDifference& one = differences[rank];
      one.low_ms = std::max(one.low_ms, all[rank][0] - all[0][1]);
      one.high_ms = std::min(one.high_ms, all[rank][1] - all[0][0]);
    }
  }
  differences[0] = {};
  return differences;
}

}  // namespace trireme

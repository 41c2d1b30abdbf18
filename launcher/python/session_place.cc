#include "launcher/python/session_place.h"

#include <algorithm>

#include "launcher/host/machine.h"
#include "parallel/comm/local.h"

namespace trireme {

std::vector<std::shared_ptr<Communicator>> SessionPlace::communicators(double timeout_s) const {
  if (mpi) return {mpi->join(timeout_s)};
  const LocalWorld world(num_ranks);
  std::vector<std::shared_ptr<Communicator>> comms;
  for (int rank = 0; rank < num_ranks; ++rank) comms.push_back(world.communicator(rank));
  return comms;
}

RunPlace SessionPlace::of(const std::shared_ptr<Communicator>& comm) const {
  RunPlace place{.out = "", .launch = {}, .comm = comm};
  if (mpi) {
    place.launch = mpi->launch();
    place.watchdog = mpi->watchdog();
    return place;
  }
  place.launch.rank = place.launch.local_rank = comm->rank();
  place.launch.num_ranks = place.launch.num_local_ranks = comm->size();
  return place;
}

// Another process that dies blocks the rank's thread for ever.
RankTeam::FirstRank SessionPlace::first_rank() const {
  const bool may_block = mpi && mpi->launch().num_ranks > 1;
  return may_block ? RankTeam::FirstRank::kOnThread : RankTeam::FirstRank::kOnCaller;
}

// Zero without a core for each thread of the ranks: a thread that spins would delay another rank.
std::chrono::microseconds SessionPlace::spin_time(std::int64_t threads) const {
  constexpr std::chrono::microseconds kWake{50};
  const bool fits = !mpi && num_ranks * std::max<std::int64_t>(1, threads) <= count_cores().allowed();
  return fits ? kWake : std::chrono::microseconds{0};
}

}  // namespace trireme

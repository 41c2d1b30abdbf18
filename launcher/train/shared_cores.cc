#include "launcher/train/shared_cores.h"

#include <sched.h>

#include <map>
#include <utility>
#include <vector>

#include "launcher/host/machine.h"
#include "parallel/comm/checksum.h"

namespace trireme {
namespace {

/// 0 if unknown.
std::uint64_t affinity_of_this_process() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 0;
  return checksum(std::as_bytes(std::span(&mask, 1)), 1);
}

}  // namespace

bool any_share_cores(const HostMap& hosts, std::span<const RankCores> ranks) {
  std::map<std::pair<int, std::uint64_t>, int> threads;  // by host and affinity
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    int& together = threads[{hosts[rank], ranks[rank].affinity}];
    together += ranks[rank].threads;
    const bool is_alone = together == ranks[rank].threads;
    if (!is_alone && together > ranks[rank].allowed) return true;
  }
  return false;
}

void sleep_where_cores_are_shared(Communicator& comm, int threads) {
  const RankCores mine{
      .threads = threads, .allowed = count_cores().allowed(), .affinity = affinity_of_this_process()};
  comm.sleep_while_waiting(any_share_cores(comm.hosts(), comm.all_gather_value(mine)));
}

}  // namespace trireme

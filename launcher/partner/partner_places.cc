#include "launcher/partner/partner_places.h"

#include <algorithm>

namespace trireme {

std::vector<int> ranks_of_host(const HostMap& hosts, int host) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank] == host) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

PartnerPlaces partner_places(const HostMap& hosts, int rank) {
  const int count = num_hosts(hosts), host = hosts.at(static_cast<std::size_t>(rank));
  if (count < 2) return {};
  PartnerPlaces places;
  const std::vector<int> mine = ranks_of_host(hosts, host), next = ranks_of_host(hosts, (host + 1) % count),
                         before = ranks_of_host(hosts, (host + count - 1) % count);
  const auto index = static_cast<std::size_t>(std::ranges::find(mine, rank) - mine.begin());
  places.sends_to = next[index % next.size()];
  for (std::size_t i = index; i < before.size(); i += mine.size()) places.receives_from.push_back(before[i]);
  return places;
}

}  // namespace trireme

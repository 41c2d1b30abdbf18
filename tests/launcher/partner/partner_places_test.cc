// Partners: every rank's copy is on the next host, and only there.
#include "launcher/partner/partner_places.h"

#include <gtest/gtest.h>

#include <map>

namespace trireme {
namespace {

using Ranks = std::vector<int>;

TEST(PartnerPlaces, AreOnTheNextHost) {
  const HostMap hosts = {0, 0, 1, 1};
  EXPECT_EQ(partner_places(hosts, 0).sends_to, 2);
  EXPECT_EQ(partner_places(hosts, 3).sends_to, 1);
  EXPECT_EQ(partner_places(hosts, 1).receives_from, Ranks{3});
}

TEST(PartnerPlaces, OneHostHasNone) {
  const PartnerPlaces places = partner_places({0, 0, 0}, 1);
  EXPECT_EQ(places.sends_to, -1);
  EXPECT_TRUE(places.receives_from.empty());
}

TEST(PartnerPlaces, UnequalHostsShareTheWork) {
  for (const HostMap& hosts :
       {HostMap{0, 0, 0, 1}, HostMap{0, 1, 1, 1, 1, 1}, HostMap{0, 1, 0, 2, 2, 2, 1}, HostMap{0, 1, 2, 3}}) {
    std::map<int, int> received;  // number of copies of each rank's shard
    for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
      const PartnerPlaces places = partner_places(hosts, rank);
      EXPECT_EQ(hosts[static_cast<std::size_t>(places.sends_to)],
                (hosts[static_cast<std::size_t>(rank)] + 1) % num_hosts(hosts));
      for (const int from : places.receives_from) {
        ++received[from];
        EXPECT_EQ(partner_places(hosts, from).sends_to, rank);
      }
    }
    EXPECT_EQ(received.size(), hosts.size());
    for (const auto& [rank, times] : received) EXPECT_EQ(times, 1) << "rank " << rank;
  }
}

}  // namespace
}  // namespace trireme

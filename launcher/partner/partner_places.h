// Chooses the partner of each rank: a rank of the next host, which keeps a copy of this rank's shard.
//
// [Note: partner copies] With checkpoint.partner each rank writes its shard of a checkpoint to the memory of
// its host (a tmpfs, which outlives the job but not the machine), and its partner receives a copy of the
// file. Hosts form a ring, so if any host is lost, another one has all its shards. A start that finds no
// checkpoint as new in the file system assembles the shards from the remaining hosts (partner_restore.h).
#pragma once

#include <vector>

#include "parallel/mesh/hosts.h"

namespace trireme {

struct PartnerPlaces {
  int sends_to = -1;               // a rank of the next host; -1: only one host
  std::vector<int> receives_from;  // ranks of the previous host
};

/// The partners of `rank`. The ranks of a host are spread over the ranks of the next, even if their numbers
/// differ.
PartnerPlaces partner_places(const HostMap& hosts, int rank);

/// The ranks of a host, in ascending order.
std::vector<int> ranks_of_host(const HostMap& hosts, int host);

}  // namespace trireme

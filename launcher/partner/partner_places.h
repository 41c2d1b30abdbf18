// The partner of each rank: a rank of the next host, whose memory gets a copy of what this one saves.
//
// [Note: partner copies] With checkpoint.partner each rank writes its shard of a checkpoint into the memory
// of its host (a tmpfs: it outlives the job, not the machine), and its partner gets a copy of the file. Hosts
// form a ring, so whichever host is lost, another one has all that it had. A start that finds no checkpoint
// as new in the file system brings the shards together from the hosts that are there (partner_restore.h).
#pragma once

#include <vector>

#include "parallel/mesh/hosts.h"

namespace trireme {

struct PartnerPlaces {
  int sends_to = -1;               // a rank of the next host; -1: there is no other host
  std::vector<int> receives_from;  // ranks of the host before
};

/// Of one rank. Ranks of a host are spread over those of the next one, whatever their numbers.
PartnerPlaces partner_places(const HostMap& hosts, int rank);

/// The ranks of a host, in order.
std::vector<int> ranks_of_host(const HostMap& hosts, int host);

}  // namespace trireme

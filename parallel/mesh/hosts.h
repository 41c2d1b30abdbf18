// The hosts of a job's ranks, and how the groups of an axis lie on them.
#pragma once

#include <vector>

#include "parallel/mesh/mesh.h"

namespace trireme {

/// By rank, the number of its host; hosts are numbered from 0 in the order of their first ranks.
using HostMap = std::vector<int>;

/// `num_ranks` ranks on hosts of `ranks_per_host` neighbours each; the last host may have fewer.
HostMap hosts_of(int num_ranks, int ranks_per_host);
/// The map of a job of `num_ranks` ranks on hosts like these: the given one if it is of so many ranks, else
/// hosts that have as many ranks as the first of these has. Of an empty map, one host.
HostMap hosts_like(const HostMap& hosts, int num_ranks);

int num_hosts(const HostMap& hosts);

/// True if ranks of some group along the axis are on different hosts.
bool spans_hosts(const Mesh& mesh, const HostMap& hosts, Axis axis);

/// R if the positions of every group along `axis` are runs of R neighbours, each run all that its host has of
/// the group; a group on one host is one run. 0 if hosts have unequally many, or not neighbours, of a group.
int ranks_per_host(const Mesh& mesh, const HostMap& hosts, Axis axis);

}  // namespace trireme

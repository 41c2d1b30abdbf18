// The hosts of a job's ranks, and the placement of an axis's groups on them.
#pragma once

#include <vector>

#include "parallel/mesh/mesh.h"

namespace trireme {

/// The host number of each rank; hosts are numbered from 0 in the order of their first ranks.
using HostMap = std::vector<int>;

/// A map of `num_ranks` ranks on hosts of `ranks_per_host` neighbours each; the last host may have fewer.
HostMap hosts_of(int num_ranks, int ranks_per_host);
/// Extrapolates a map to `num_ranks` ranks. Returns `hosts` if it already has that size, else hosts with as
/// many ranks each as the first host. An empty map gives one host.
HostMap hosts_like(const HostMap& hosts, int num_ranks);

int num_hosts(const HostMap& hosts);

/// True if some group along the axis has ranks on different hosts.
bool spans_hosts(const Mesh& mesh, const HostMap& hosts, Axis axis);

/// Returns R if every group along `axis` consists of runs of R consecutive positions, each on its own host; a
/// group on one host is one run. 0 if a group has runs of different lengths, or several runs on one host.
int ranks_per_host(const Mesh& mesh, const HostMap& hosts, Axis axis);

}  // namespace trireme

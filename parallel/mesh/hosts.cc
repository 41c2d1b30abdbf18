#include "parallel/mesh/hosts.h"

#include <algorithm>
#include <set>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// The common length of a group's runs on one host; 0 if lengths differ, or a host has two runs.
int run_length(const std::vector<int>& group, const HostMap& hosts) {
  const auto host = [&](std::size_t position) { return hosts[static_cast<std::size_t>(group[position])]; };
  std::set<int> seen;
  std::size_t first_length = 0;
  for (std::size_t begin = 0; begin < group.size();) {
    std::size_t end = begin + 1;
    while (end < group.size() && host(end) == host(begin)) ++end;
    if (!seen.insert(host(begin)).second) return 0;
    if (begin > 0 && end - begin != first_length) return 0;
    first_length = end - begin;
    begin = end;
  }
  return static_cast<int>(first_length);
}

}  // namespace

HostMap hosts_of(int num_ranks, int ranks_per_host) {
  TRIREME_CHECK(ranks_per_host >= 1, "a host has {} ranks: it needs 1 or more", ranks_per_host);
  HostMap hosts;
  for (int rank = 0; rank < num_ranks; ++rank) hosts.push_back(rank / ranks_per_host);
  return hosts;
}

HostMap hosts_like(const HostMap& hosts, int num_ranks) {
  if (static_cast<int>(hosts.size()) == num_ranks) return hosts;
  if (hosts.empty()) return HostMap(static_cast<std::size_t>(num_ranks), 0);
  return hosts_of(num_ranks, static_cast<int>(std::ranges::count(hosts, hosts.front())));
}

int num_hosts(const HostMap& hosts) {
  return static_cast<int>(std::set<int>(hosts.begin(), hosts.end()).size());
}

bool spans_hosts(const Mesh& mesh, const HostMap& hosts, Axis axis) {
  return std::ranges::any_of(mesh.groups(axis), [&](const std::vector<int>& group) {
    return std::ranges::any_of(group, [&](int rank) {
      return hosts[static_cast<std::size_t>(rank)] != hosts[static_cast<std::size_t>(group[0])];
    });
  });
}

int ranks_per_host(const Mesh& mesh, const HostMap& hosts, Axis axis) {
  int length = -1;
  for (const std::vector<int>& group : mesh.groups(axis)) {
    const int here = run_length(group, hosts);
    if (length >= 0 && here != length) return 0;
    length = here;
  }
  return length;
}

}  // namespace trireme

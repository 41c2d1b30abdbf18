// The fabric of all hosts of a job, for `trireme doctor` under mpirun.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "launcher/host/clock_difference.h"
#include "launcher/host/fabric.h"

namespace trireme {

struct JobFabric {
  struct Host {
    HostFabric fabric;
    ClockDifference clock;  // from the first host's
  };
  std::vector<Host> hosts;  // in the order of their first ranks
};

/// Collective.
JobFabric examine_fabric(Communicator& comm);

/// The slowest link of the hosts; null for one host, and if a host has no known rate.
std::optional<HostLink> link_between_hosts(const JobFabric& fabric);

/// Lines with a key, which is empty for continuations: "fabric of host-a, host-b", "clocks".
std::vector<std::pair<std::string, std::string>> describe(const JobFabric& fabric);
/// The rate of the link, and the part of it that `bus_gb_per_s` is.
std::string describe_link(const JobFabric& fabric, double bus_gb_per_s);

nlohmann::ordered_json to_json(const JobFabric& fabric);

}  // namespace trireme

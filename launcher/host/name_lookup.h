// The look-up of `localhost`, which mpirun makes at each start.
//
// [Note: localhost] Open MPI's mpirun examines the machine with hwloc, whose plug-in `gl` tries ten X
// displays, twice. Each try looks up `localhost`. Without an address in /etc/hosts, as in bare containers and
// chroots, a name server is asked 20 times. If none answers, mpirun starts a minute later.
// `HWLOC_COMPONENTS=-gl` avoids that.
#pragma once

#include <string>

namespace trireme {

struct NameLookup {
  std::string name;
  std::string problem;  // message of the resolver; empty: the name has an address
  double seconds = 0;   // duration of the look-up
};

/// Looks up an address in /etc/hosts, then with DNS. May take several seconds if the name has none.
NameLookup look_up_name(const std::string& name);

/// "found in 0.1 ms". For a slow look-up, or none, also the consequence and the line to add to /etc/hosts.
std::string describe_localhost(const NameLookup& lookup);

}  // namespace trireme

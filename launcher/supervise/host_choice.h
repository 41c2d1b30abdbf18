// The hosts of the next attempt: pure reasoning over the history.
//
// [Note: spare hosts] With K spares a job runs on all hosts of its file but K. Which those are is decided
// before each attempt anew: hosts that cannot be used now are left out, and of the others those with the
// fewest strikes are taken, in the order of the file where they are equal. So a spare takes the place of a
// host that struck, and that host is a spare from then on, until others have struck as often. A host with two
// strikes more than the best one is left out even where there is no spare, as long as the others hold the
// ranks that the job needs at least.
#pragma once

#include <string>
#include <vector>

#include "launcher/supervise/history.h"
#include "launcher/supervise/host_list.h"

namespace trireme {

struct HostQuestion {
  std::vector<Host> hosts;  // of the host file, in its order
  int num_spares = 0;
  int min_slots = 1;                 // that the job needs
  std::vector<std::string> missing;  // that cannot be used now: silent, or with other bits
};

/// Each in the order of the file.
struct HostChoice {
  std::vector<Host> used, spares;
  std::vector<Host> left_out;  // that struck too often; those that are missing are in none of the three
};

/// Failed attempts that a host is to blame for.
int num_strikes(const std::vector<Attempt>& attempts, const std::string& host);

HostChoice choose_hosts(const HostQuestion& question, const std::vector<Attempt>& attempts);

}  // namespace trireme

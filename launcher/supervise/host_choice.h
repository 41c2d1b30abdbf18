// Chooses the hosts of the next attempt: a pure function of the history.
//
// [Note: spare hosts] With K spares a job runs on all hosts of its file but K. The choice is made anew before
// each attempt. Unusable hosts are left out. Of the others, the hosts with the fewest strikes are used; ties
// follow the file's order. So a spare replaces a host that struck, and that host is a spare until others have
// as many strikes. A host with two strikes more than the best one is left out even without a spare, if the
// remaining hosts hold the minimum number of ranks.
#pragma once

#include <string>
#include <vector>

#include "launcher/records/history.h"
#include "launcher/supervise/host_list.h"

namespace trireme {

struct HostQuestion {
  std::vector<Host> hosts;  // in the order of the host file
  int num_spares = 0;
  int min_slots = 1;                 // slots that the job needs
  std::vector<std::string> missing;  // unusable now: silent, or computing other bits
};

/// Each list is in the order of the file.
struct HostChoice {
  std::vector<Host> used, spares;
  std::vector<Host> left_out;  // too many strikes; missing hosts are in none of the three lists
};

/// Number of failed attempts for which this host is to blame.
int num_strikes(const std::vector<Attempt>& attempts, const std::string& host);

HostChoice choose_hosts(const HostQuestion& question, const std::vector<Attempt>& attempts);

}  // namespace trireme

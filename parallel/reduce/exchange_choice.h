// Chooses one or two levels for the exchanges of the data axis: [Note: two levels] in layout/data_axis.h.
#pragma once

#include <string>

#include "parallel/layout/batch_layout.h"
#include "parallel/layout/layout.h"
#include "parallel/mesh/hosts.h"
#include "parallel/reduce/grad_reduction.h"

namespace trireme {

struct ExchangeChoice {
  int data_ranks_per_host = 1;  // 2 or more: two levels
  std::string why_flat;         // reason against two levels; empty if there are two, or they are not wanted
};

/// Canonical sums use two levels if the micro-batches of each host are a complete subtree of the tree over
/// all ([Note: canonical reduction]), so that no bit changes. Library sums use them if all hosts have equally
/// many neighbours of each group.
ExchangeChoice choose_exchange(Exchange wanted, const Mesh& mesh, const HostMap& hosts,
                               const BatchLayout& batch, Reduction reduction);

}  // namespace trireme

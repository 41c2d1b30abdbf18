// Whether the exchanges of the data axis have one level or two, [Note: two levels] in layout/data_axis.h.
#pragma once

#include <cstdint>
#include <string>

#include "parallel/layout/batch_layout.h"
#include "parallel/mesh/hosts.h"
#include "parallel/reduce/grad_reduction.h"

namespace trireme {

enum class Exchange : std::uint8_t {
  kAuto,          // two levels where they are possible and the sum is canonical: a host then sends least
  kFlat,          // one level
  kHierarchical,  // where they are possible; else ExchangeChoice::why_flat is for people
};

struct ExchangeChoice {
  int data_ranks_per_host = 1;  // 2 or more: two levels
  std::string why_flat;         // what stands against two; empty where they are, or nobody wants them
};

/// Canonical sums go in two levels where the micro-batches of each host are a complete subtree of the tree
/// over all ([Note: canonical reduction]), so that no bit changes; the library's wherever all hosts have
/// equally many neighbours of each group.
ExchangeChoice choose_exchange(Exchange wanted, const Mesh& mesh, const HostMap& hosts,
                               const BatchLayout& batch, Reduction reduction);

}  // namespace trireme

// Describes the hosts of a job's ranks: the rank map, and its effect on exchanges.
#pragma once

#include <string>

#include "parallel/foresee/predict.h"
#include "parallel/reduce/exchange_choice.h"

namespace trireme {

struct Placement {
  Mesh mesh;
  HostMap hosts;  // by rank
};

/// "flat" or "hierarchical": the exchange used.
std::string word_of(const ExchangeChoice& choice);

/// Describes how data ranks exchange, and why not on two levels if they could. Empty if all are on one host
/// and the job did not request hosts to matter.
std::string describe_exchange(const Placement& placement, Exchange wanted, const ExchangeChoice& choice);

/// A warning, with the bytes per step, if ranks that share tensor chunks are on several hosts; else empty.
std::string warn_of_tensor_over_hosts(const Placement& placement, const StepPrediction& prediction);

/// The map rank -> coordinates: one row per host. With one host, one row per group of tensor ranks; empty
/// without tensor ranks.
std::string describe_places(const Placement& placement);

}  // namespace trireme

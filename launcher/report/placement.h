// The hosts of a job's ranks, in words: the map of ranks, and what it means for exchanges.
#pragma once

#include <string>

#include "parallel/foresee/predict.h"
#include "parallel/reduce/exchange_choice.h"

namespace trireme {

struct Placement {
  Mesh mesh;
  HostMap hosts;  // by rank
};

/// "flat" or "hierarchical": what is done.
std::string word_of(const ExchangeChoice& choice);

/// How data ranks exchange, and why not on two levels where they might; empty where one host has all of them
/// and nobody requested hosts to matter.
std::string describe_exchange(const Placement& placement, Exchange wanted, const ExchangeChoice& choice);

/// Warns, with the bytes of a step, where ranks that share tensor chunks are on several hosts; else empty.
std::string warn_of_tensor_over_hosts(const Placement& placement, const StepPrediction& prediction);

/// The map rank -> coordinates -> host, a row a host; empty with one host.
std::string describe_hosts(const Placement& placement);

}  // namespace trireme

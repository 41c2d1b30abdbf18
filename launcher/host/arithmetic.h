// The facts that decide the last bits of a job's results beside its keys: instruction sets, the card,
// libraries, the build. Checkpoints record them, ranks compare them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "runtime/base/device.h"

namespace trireme {

/// By name: {"instruction set": "x86_64_v4", "build": "0.9.0, Release, GNU 12.2.0", ...}.
using BitFacts = std::map<std::string, std::string>;

/// Of this rank on `device`.
BitFacts arithmetic_of(Device device);

/// Collective. Throws an AgreedError that names what differs between ranks, with hosts and values, and what
/// to do: their results would differ in last bits.
void check_same_arithmetic(Communicator& comm, const BitFacts& mine);

/// The same as check_same_arithmetic() finds, over the facts of all ranks and their hosts; empty: no
/// difference.
std::string describe_different_ranks(const std::vector<BitFacts>& all, const std::vector<std::string>& hosts);

/// "instruction set (x86_64_v4, now x86_64_v3)" for each fact that both have and that differs.
std::vector<std::string> describe_changes(const BitFacts& before, const BitFacts& now);

}  // namespace trireme

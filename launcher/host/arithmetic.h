// The facts beside the job's keys that determine the bits of its results: instruction sets, the GPU,
// libraries, the build. Checkpoints record them, and ranks compare them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "runtime/base/device.h"

namespace trireme {

/// Fact name -> value: {"instruction set": "x86_64_v4", "build": "0.9.0, Release, GNU 12.2.0", ...}.
using BitFacts = std::map<std::string, std::string>;

/// The facts of this rank on `device`.
BitFacts arithmetic_of(Device device);

/// Collective. If the facts of ranks differ, so that the last bits of their results would, throws an
/// AgreedError with the differences, hosts, values and what to do.
void check_same_arithmetic(Communicator& comm, const BitFacts& mine);

/// The message of check_same_arithmetic() for the facts of all ranks and their hosts; empty if they agree.
std::string describe_different_ranks(const std::vector<BitFacts>& all, const std::vector<std::string>& hosts);

/// "instruction set (x86_64_v4, now x86_64_v3)" for each fact in both that differs.
std::vector<std::string> describe_changes(const BitFacts& before, const BitFacts& now);

}  // namespace trireme

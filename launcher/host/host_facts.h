// The facts that a host reports before a job starts there: its name, and what determines the last bits of
// results.
#pragma once

#include <optional>
#include <string>

#include "launcher/host/arithmetic.h"
#include "runtime/base/device.h"

namespace trireme {

struct HostFacts {
  std::string host;     // its own name; other hosts may use another one
  BitFacts arithmetic;  // including "build id" of this program file, if the linker wrote one
};

/// The facts of this host for a job on `device`; null: on GPUs if there are any.
HostFacts facts_of_this_host(std::optional<DeviceType> device);

/// One line of JSON, without a newline.
std::string to_json(const HostFacts& facts);
/// The first such line in `output`, which may contain lines of mpirun; null if there is none.
std::optional<HostFacts> find_host_facts(const std::string& output);

/// "instruction set x86_64_v3, not x86_64_v4; build id 12ab, not 34cd"; empty if the bits are the same.
std::string describe_other_bits(const BitFacts& one, const BitFacts& reference);

}  // namespace trireme

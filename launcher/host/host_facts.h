// What a host says of itself before a job starts there: its name, and the facts that decide the last bits.
#pragma once

#include <optional>
#include <string>

#include "launcher/host/arithmetic.h"
#include "runtime/base/device.h"

namespace trireme {

struct HostFacts {
  std::string host;     // as it calls itself, which need not be the name that others reach it by
  BitFacts arithmetic;  // with "build id": of this very program file, where its linker made one
};

/// Of this host, for a job on `device`; empty: on GPUs where there are any.
HostFacts facts_of_this_host(std::optional<DeviceType> device);

/// One line of JSON, without its end.
std::string to_json(const HostFacts& facts);
/// Of the first such line among others, as mpirun may print some; nothing where there is none.
std::optional<HostFacts> find_host_facts(const std::string& output);

/// "instruction set x86_64_v3, not x86_64_v4; build id 12ab, not 34cd"; empty: the same bits.
std::string describe_other_bits(const BitFacts& one, const BitFacts& reference);

}  // namespace trireme

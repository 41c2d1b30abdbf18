// Finds the host whose failure ended an attempt.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/records/run_record.h"
#include "launcher/supervise/mpirun_words.h"

namespace trireme {

/// The evidence about the end of an attempt.
struct EndEvidence {
  std::optional<RunRecord> failure;  // null: no rank wrote a record
  MpirunWords mpirun;
  std::vector<std::string> rank_hosts = {};  // by rank, as the hosts name themselves; empty: unknown
  /// Maps a host's own name to its name in the host file. Several hosts may have one own name.
  std::multimap<std::string, std::string> names = {};
};

/// The host at fault, as named in the host file. In this order: the host that mpirun lost, a silent host, the
/// host of the rank at fault. Without a record, the rank or the host that mpirun names. Empty if none is at
/// fault, or if the name fits several hosts.
std::string culprit_host(const EndEvidence& evidence);

/// Describes the end of the attempt: the failure, else mpirun's message. Adds the host that mpirun lost,
/// unless the failure names a silent host.
std::string describe_end(const EndEvidence& evidence);

/// "host node1: rank 1 (process 12) died in ...", with keys in place of fields.
std::string describe(const RunRecord& failure);

}  // namespace trireme

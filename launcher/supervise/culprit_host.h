// Finds the host whose failure ended an attempt.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/records/run_record.h"
#include "launcher/supervise/mpirun_words.h"

namespace trireme {

/// All that is known about the end of an attempt.
struct EndEvidence {
  std::optional<RunRecord> failure;  // nothing: no rank wrote a record
  MpirunWords mpirun;
  std::vector<std::string> rank_hosts = {};  // by rank, as the hosts call themselves; empty: not known
  /// Names of the host file, by what the hosts call themselves, which may be one name for several.
  std::multimap<std::string, std::string> names = {};
};

/// A name of the host file: of the host that mpirun lost, else of one that is silent, else of the rank at
/// fault. Without a record it is the rank that mpirun names, or the host named there. Empty where nobody is
/// at fault, and for a name that several hosts have.
std::string culprit_host(const EndEvidence& evidence);

/// Says what ended the attempt: the failure, else mpirun's words. A host that mpirun lost is added, unless
/// ranks named a silent one.
std::string describe_end(const EndEvidence& evidence);

/// "host node1: rank 1 (process 12) died in ...", with keys in place of fields.
std::string describe(const RunRecord& failure);

}  // namespace trireme

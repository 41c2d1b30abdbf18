// The host that the end of an attempt is owed to, from the words that it left.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trireme {

struct AttemptWords {
  std::string verdict;                  // of the job or of mpirun, see job_words.h
  std::string lost;                     // a host that mpirun lost, as it names it; empty: none
  std::vector<std::string> rank_hosts;  // by rank, as the hosts call themselves; empty: not known
  /// Names of the host file, by what the hosts call themselves, which may be one name for several.
  std::multimap<std::string, std::string> names;
};

/// "ORTE has lost communication with a remote daemon": the host that mpirun names there; empty: it does not.
std::string lost_host(const std::filesystem::path& log);

/// `verdict` with a host that mpirun lost, unless it has a silent one, which ranks saw first. What else ranks
/// say may be what they saw of it, or why they ended: it stays in front.
std::string with_lost_host(const std::string& verdict, const std::string& lost);

/// "10.0.0.2 has acknowledged nothing": the host, by its address, that a rank names there
/// (parallel/watch/silent_peers.h); empty: it does not.
std::string silent_host(const std::string& verdict);

/// A name of the host file: of the host that was lost, else of one that is silent, else of the rank that the
/// verdict names first, else of one that it names itself. Empty without any, and for a name
/// that several hosts have.
std::string struck_host(const AttemptWords& words);

}  // namespace trireme

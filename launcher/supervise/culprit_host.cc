#include "launcher/supervise/culprit_host.h"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/config/field_keys.h"
#include "runtime/base/terminal_text.h"

namespace trireme {
namespace {

/// The name without its domain, as mpirun prints it by default; an address is unchanged.
std::string short_name(const std::string& host) {
  return host.find_first_not_of("0123456789.") == std::string::npos ? host : host.substr(0, host.find('.'));
}

/// The only name in the file for which `matches(own, name)` is true; empty if there is none or more than one.
template <class Matches>
std::string only_name(const EndEvidence& evidence, Matches matches) {
  std::string found;
  for (const auto& [own, name] : evidence.names) {
    if (!matches(own, name) || name == found) continue;
    if (!found.empty()) return "";
    found = name;
  }
  return found;
}

/// Prefers a match of the whole name, then of the host's own name, then of the short name that mpirun prints.
std::string name_in_file(const EndEvidence& evidence, const std::string& host) {
  if (host.empty()) return "";
  const auto is_name = [&](const auto&, const auto& name) { return host == name; };
  const auto is_own = [&](const auto& own, const auto&) { return host == own; };
  const auto is_short = [&](const auto& own, const auto& name) {
    return host == short_name(own) || host == short_name(name);
  };
  std::string found = only_name(evidence, is_name);
  if (found.empty()) found = only_name(evidence, is_own);
  if (found.empty()) found = only_name(evidence, is_short);
  return found;
}

std::string host_of_rank(const EndEvidence& evidence, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  return rank >= 0 && at < evidence.rank_hosts.size() ? evidence.rank_hosts[at] : "";
}

}  // namespace

std::string culprit_host(const EndEvidence& evidence) {
  if (!evidence.mpirun.lost_host.empty()) return name_in_file(evidence, evidence.mpirun.lost_host);
  if (evidence.failure) {
    const ErrorFacts& facts = evidence.failure->facts;
    return name_in_file(evidence, facts.host.empty() ? host_of_rank(evidence, facts.rank) : facts.host);
  }
  const std::string of_rank = name_in_file(evidence, host_of_rank(evidence, evidence.mpirun.rank));
  return of_rank.empty() ? name_in_file(evidence, evidence.mpirun.host) : of_rank;
}

std::string describe(const RunRecord& failure) {
  const std::string message = terminal_text(with_keys(failure.message));
  return failure.reporter_host.empty() ? message : fmt::format("host {}: {}", failure.reporter_host, message);
}

std::string describe_end(const EndEvidence& evidence) {
  const std::string text = evidence.failure ? describe(*evidence.failure) : evidence.mpirun.verdict;
  const std::string& lost = evidence.mpirun.lost_host;
  if (lost.empty() || (evidence.failure && evidence.failure->blames_silent_host())) return text;
  const std::string word =
      fmt::format("mpirun has lost the connection to its daemon on {}: the host or its link is down", lost);
  if (text.empty()) return word;
  const auto first_line = std::min(text.find('\n'), text.size());
  return text.substr(0, first_line) + "; " + word + text.substr(first_line);
}

}  // namespace trireme

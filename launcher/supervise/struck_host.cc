#include "launcher/supervise/struck_host.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <regex>

namespace trireme {
namespace {

/// Without its domain, as mpirun has it by default; an address as it is.
std::string short_name(const std::string& host) {
  return host.find_first_not_of("0123456789.") == std::string::npos ? host : host.substr(0, host.find('.'));
}

/// The only name of the file for which `matches(own, name)` holds; empty: none, or several.
template <class Matches>
std::string only_name(const AttemptWords& words, Matches matches) {
  std::string found;
  for (const auto& [own, name] : words.names) {
    if (!matches(own, name) || name == found) continue;
    if (!found.empty()) return "";
    found = name;
  }
  return found;
}

/// The whole name goes before what the host calls itself, and both before the part of them that mpirun shows.
std::string name_in_file(const AttemptWords& words, const std::string& host) {
  const auto is_name = [&](const auto&, const auto& name) { return host == name; };
  const auto is_own = [&](const auto& own, const auto&) { return host == own; };
  const auto is_short = [&](const auto& own, const auto& name) {
    return host == short_name(own) || host == short_name(name);
  };
  std::string found = only_name(words, is_name);
  if (found.empty()) found = only_name(words, is_own);
  if (found.empty()) found = only_name(words, is_short);
  return found;
}

/// The rank that the verdict is about comes first in it: "rank 1 (process 12) died in", "held up (...) by
/// rank 1", "mpirun noticed that process rank 1". Not one that others wait for.
int first_rank(const std::string& verdict) {
  static const std::regex kRank(R"((?:^|[^a-z])rank (\d{1,7})\b)");
  std::smatch found;
  const std::string first_line = verdict.substr(0, verdict.find('\n'));
  if (first_line.find("all ranks of this machine wait") != std::string::npos)
    return -1;  // the one that says so
  return std::regex_search(first_line, found, kRank) ? std::stoi(found[1]) : -1;
}

}  // namespace

std::string lost_host(const std::filesystem::path& log) {
  std::ifstream file(log);
  bool lost = false;
  for (std::string line; std::getline(file, line);) {
    lost = lost || line.starts_with("ORTE has lost communication with a remote daemon");
    const auto node = line.rfind(" on node ");
    if (lost && line.find("Remote daemon:") != std::string::npos && node != std::string::npos)
      return line.substr(node + std::string_view(" on node ").size());
  }
  return "";
}

std::string with_lost_host(const std::string& verdict, const std::string& lost) {
  if (lost.empty() || !silent_host(verdict).empty()) return verdict;
  const std::string word =
      fmt::format("mpirun has lost the connection to its daemon on {}: the host or its link is down", lost);
  if (verdict.empty()) return word;
  const auto first_line = std::min(verdict.find('\n'), verdict.size());
  return verdict.substr(0, first_line) + "; " + word + verdict.substr(first_line);
}

std::string silent_host(const std::string& verdict) {
  static const std::regex kSilent(R"((\S+) has acknowledged nothing for )");
  std::smatch found;
  return std::regex_search(verdict, found, kSilent) ? found[1].str() : "";
}

std::string struck_host(const AttemptWords& words) {
  if (!words.lost.empty()) return name_in_file(words, words.lost);
  if (const std::string silent = silent_host(words.verdict); !silent.empty())
    return name_in_file(words, silent);
  const int rank = first_rank(words.verdict);
  if (rank >= 0 && static_cast<std::size_t>(rank) < words.rank_hosts.size()) {
    const std::string name = name_in_file(words, words.rank_hosts[static_cast<std::size_t>(rank)]);
    if (!name.empty()) return name;
  }
  static const std::regex kNode(R"(\bon (?:node|host) (\S+?)[.,;:]?(?=\s|$))");
  std::smatch found;
  return std::regex_search(words.verdict, found, kNode) ? name_in_file(words, found[1]) : "";
}

}  // namespace trireme

#include "launcher/supervise/mpirun_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <utility>

namespace trireme {
namespace {

constexpr const char* kEnds[] = {"MPI_ABORT was invoked", "mpirun noticed that process",
                                 "mpirun has exited due to", "ORTE has lost communication"};

const std::regex& rank_that_ended() {
  static const std::regex kRank(
      R"(^mpirun (?:noticed that|has exited due to) process rank (\d{1,7}) .*?(?: on(?: node (\S+).*)?)?$)");
  return kRank;
}

/// Matches the line after "mpirun has exited due to process rank 1 with PID 0 on".
const std::regex& node_of_rank() {
  static const std::regex kNode(R"(^node (\S+) exiting )");
  return kNode;
}

/// Matches "  Process name: [[14824,1],1]".
const std::regex& process_name() {
  static const std::regex kName(R"(Process name: \[\[.*\],(\d{1,7})\]$)");
  return kName;
}
const std::regex& process_code() {
  static const std::regex kCode(R"(Exit code: +(\S+))");
  return kCode;
}

const std::regex& lost_daemon() {
  static const std::regex kDaemon(R"(Remote daemon:.* on node (\S+)$)");
  return kDaemon;
}

/// The refusal in a line, with what to do; empty if there is none.
std::string refusal_in(const std::string& line) {
  static const std::regex kTooFewSlots(
      R"(^There are not enough slots available in the system to satisfy the (\d+))");
  if (line.starts_with("mpirun: Error: ")) return line;
  std::smatch found;
  if (!std::regex_search(line, found, kTooFewSlots)) return "";
  return fmt::format(
      "mpirun refuses to start {} ranks, as it has fewer slots, by default one for each core: ask for fewer "
      "with --ranks, name hosts with --hosts, or add -- --oversubscribe to the command",
      found[1].str());
}

/// A cheap filter: most lines are metrics, and regular expressions are slow.
bool may_be_mpiruns(const std::string& line) {
  constexpr std::string_view kWords[] = {
      "mpirun", "node ", "Process name:", "Exit code:", "ORTE", "daemon:", "not enough slots"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return line.find(word) != line.npos; });
}

}  // namespace

bool ends_job(std::string_view line) {
  return std::ranges::any_of(kEnds, [&](const char* words) { return line.find(words) != line.npos; });
}

bool MpirunReports::take(std::string_view line) {
  constexpr std::size_t kRule = 60;  // Open MPI prints 74 dashes
  if (line.size() >= kRule && line.find_first_not_of('-') == line.npos) {
    in_frame_ = !in_frame_;
    return true;
  }
  return in_frame_ || line.starts_with("mpirun: Forwarding signal ");
}

MpirunWords read_mpirun_words(const std::filesystem::path& log) {
  MpirunWords words;
  std::ifstream file(log);
  bool lost = false;
  int named = -1;  // rank named in the previous line
  std::smatch found;
  for (std::string line; std::getline(file, line);) {
    if (!may_be_mpiruns(line)) continue;
    if (std::regex_search(line, found, rank_that_ended())) {
      words.verdict = line;
      words.rank = std::stoi(found[1]);
      words.host = found[2];
    } else if (words.host.empty() && std::regex_search(line, found, node_of_rank())) {
      words.host = found[1];
    } else if (std::regex_search(line, found, process_name())) {
      named = std::stoi(found[1]);
    } else if (named >= 0 && std::regex_search(line, found, process_code())) {
      words.verdict = fmt::format("rank {} exited with code {}, as mpirun noticed", named, found[1].str());
      words.rank = std::exchange(named, -1);
    } else if (const std::string refusal = refusal_in(line); !refusal.empty()) {
      words.verdict = refusal;
      words.refuses = true;
    }
    lost = lost || line.starts_with("ORTE has lost communication with a remote daemon");
    if (lost && words.lost_host.empty() && std::regex_search(line, found, lost_daemon()))
      words.lost_host = found[1];
  }
  return words;
}

}  // namespace trireme

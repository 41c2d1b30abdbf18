#include "parallel/stall_report.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "parallel/process_watch.h"

namespace trireme {
namespace {

std::string action_of(const RankReading& rank) {
  if (rank.text.empty()) return "before its first action";
  return (rank.busy ? "in " : "after ") + rank.text;
}

std::string wait_of(const RankReading& rank) {
  if (!rank.waits) return "";
  return rank.waits_for >= 0 ? fmt::format(", waiting for rank {}", rank.waits_for) : ", waiting for others";
}

std::string process_of(const RankReading& rank, bool stopped) {
  if (rank.process == getpid()) return "";
  return fmt::format(" (process {}{})", rank.process, stopped ? ", stopped by a signal" : "");
}

}  // namespace

std::string describe_death(const RankReading& rank) {
  return fmt::format(
      "rank {}{} died {}{}, without a word: killed, or out of host memory (dmesg tells); the job ends",
      rank.rank, process_of(rank, false), action_of(rank), wait_of(rank));
}

std::string describe_stall(const RankBoard& board, double timeout_s) {
  std::vector<RankReading> ranks;
  std::vector<bool> stopped;
  for (int place = 0; place < board.size(); ++place) {
    ranks.push_back(board.read(place));
    stopped.push_back(ranks.back().process != getpid() && is_stopped(ranks.back().process));
  }
  const bool any_stopped = std::ranges::find(stopped, true) != stopped.end();
  std::string culprits, others;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankReading& rank = ranks[i];
    if (rank.ended) continue;
    const std::string text =
        fmt::format("rank {}{} {}{} for {:.1f} s", rank.rank, process_of(rank, stopped[i]), action_of(rank),
                    wait_of(rank), rank.for_s);
    const bool culprit = any_stopped ? stopped[i] : !rank.waits;
    (culprit ? culprits : others) += (culprit && !culprits.empty() ? "; " : culprit ? "" : "\n  ") + text;
  }
  const std::string limit = fmt::format("(parallel.timeout_s = {})", timeout_s);
  if (culprits.empty()) return fmt::format("all ranks of this machine wait {}:{}", limit, others);
  return fmt::format("the job is held up {} by {}{}{}", limit, culprits, others.empty() ? "" : ", while",
                     others);
}

}  // namespace trireme

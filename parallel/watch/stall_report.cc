#include "parallel/watch/stall_report.h"

#include <fmt/core.h>
#include <unistd.h>

#include <vector>

#include "parallel/watch/process_watch.h"
#include "runtime/base/lines_error.h"

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

// Guesses the rank of a line that no process has entered. Lines are in the order of ranks, and the ranks of a
// machine are usually consecutive. -1: no rank has arrived.
int rank_of_missing(std::size_t slot, const std::vector<RankReading>& ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].process != 0) return ranks[i].rank + static_cast<int>(slot) - static_cast<int>(i);
  }
  return -1;
}

std::string describe_missing(std::size_t slot, int rank) {
  const std::string number = rank >= 0 ? fmt::format(" (rank {} if ranks are consecutive)", rank) : "";
  return fmt::format("process {} of this machine{}, which has not arrived", slot, number);
}

}  // namespace

bool is_any_stopped(const RankBoard& board) {
  for (int slot = 0; slot < board.size(); ++slot) {
    const int process = board.read(slot).visible_process();
    if (process != 0 && process != getpid() && is_stopped(process)) return true;
  }
  return false;
}

Error death_of(const RankReading& rank) {
  return Error(ErrorCode::kCommunication,
               "rank {}{} died {}{} without a message: it was killed, or host memory was full (see dmesg); "
               "the job ends",
               rank.rank, process_of(rank, false), action_of(rank), wait_of(rank))
      .about({.rank = rank.rank, .action = rank.text});
}

Error stall_of(const RankBoard& board, const std::string& limit, const std::string& note,
               const std::vector<SilentPeer>& silent) {
  std::vector<RankReading> ranks;
  std::vector<bool> stopped;
  bool any_sure = false;  // that the job cannot continue
  for (int slot = 0; slot < board.size(); ++slot) {
    ranks.push_back(board.read(slot));
    const int process = ranks.back().visible_process();
    stopped.push_back(process != 0 && process != getpid() && is_stopped(process));
    any_sure = any_sure || stopped.back() || ranks.back().process == 0;
  }
  ErrorFacts facts{.field = "EngineOptions::timeout_s", .value = limit};
  std::string culprits, others;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankReading& rank = ranks[i];
    if (rank.ended && !stopped[i]) continue;
    const bool missing = rank.process == 0;
    const std::string text =
        missing ? describe_missing(i, rank_of_missing(i, ranks))
                : fmt::format("rank {}{} {}{} for {:.1f} s", rank.rank, process_of(rank, stopped[i]),
                              action_of(rank), wait_of(rank), rank.for_s);
    const bool culprit = any_sure ? missing || stopped[i] : !rank.waits;
    if (culprit && culprits.empty()) {
      facts.rank = missing ? rank_of_missing(i, ranks) : rank.rank;
      facts.action = rank.text;
    }
    (culprit ? culprits : others) += (culprit && !culprits.empty() ? "; " : culprit ? "" : "\n  ") + text;
  }
  const std::string exceeded = fmt::format("{} = {}{}", facts.field, limit, note);
  if (!culprits.empty())
    return LinesError(ErrorCode::kCommunication,
                      split_lines(fmt::format("the job is held up ({}) by {}{}{}", exceeded, culprits,
                                              others.empty() ? "" : ", while", others)))
        .about(std::move(facts));
  if (!silent.empty()) facts.host = silent.front().address;
  return LinesError(
             ErrorCode::kCommunication,
             split_lines(fmt::format("all ranks of this machine wait ({}){}{}:{}", exceeded,
                                     silent.empty() ? "" : "; ", describe_silent_peers(silent), others)))
      .about(std::move(facts));
}

}  // namespace trireme

#include "launcher/supervise/rank_watch.h"

#include <utility>

#include "launcher/host/machine.h"
#include "launcher/supervise/job_process.h"
#include "parallel/comm/board_memory.h"
#include "parallel/watch/stall_report.h"

namespace trireme {
namespace {

// A scan reads all processes of the host: frequent while ranks start, rare afterwards.
constexpr auto kWhileTheyCome = std::chrono::milliseconds(100);
constexpr auto kAfterwards = std::chrono::seconds(1);

}  // namespace

RankWatch::RankWatch(std::string tag, int num_ranks)
    : tag_(std::move(tag)), host_(host_name()), num_ranks_(num_ranks) {}

void RankWatch::look_for_ranks() {
  if (static_cast<int>(watched_.size()) >= num_ranks_ || Clock::now() < next_look_) return;
  for (const int process : tagged_processes(tag_)) {
    std::shared_ptr<RankBoard> found = find_board(process, known_);
    if (!found) continue;
    entered_.emplace_back(static_cast<std::size_t>(found->size()));
    boards_.push_back(std::move(found));
  }
  next_look_ =
      Clock::now() + (boards_.empty() ? Clock::duration(kWhileTheyCome) : Clock::duration(kAfterwards));
}

void RankWatch::watch_newcomers() {
  for (std::size_t board = 0; board < boards_.size(); ++board) {
    for (int slot = 0; slot < boards_[board]->size(); ++slot) {
      std::vector<bool>& entered = entered_[board];
      if (entered[static_cast<std::size_t>(slot)]) continue;
      const RankReading rank = boards_[board]->read(slot);
      if (rank.process == 0) continue;
      entered[static_cast<std::size_t>(slot)] = true;
      if (rank.visible_process() == 0) continue;
      watched_.push_back({.board = board, .slot = slot});
      processes_.add(rank.process);
    }
  }
}

bool RankWatch::was_ended_by_a_rank() const {
  for (const auto& board : boards_) {
    for (int slot = 0; slot < board->size(); ++slot) {
      const RankReading rank = board->read(slot);
      if (rank.ended && !rank.finished) return true;
    }
  }
  return false;
}

std::optional<RunRecord> RankWatch::judge(const Place& place) const {
  const RankReading rank = boards_[place.board]->read(place.slot);
  if (rank.ended) return std::nullopt;
  RunRecord verdict = record_of(RunRecord::Event::kVerdict, death_of(rank));
  verdict.reporter_host = verdict.facts.host = host_;
  return verdict;
}

std::optional<RunRecord> RankWatch::wait(std::chrono::milliseconds patience) {
  if (!is_over_) {
    look_for_ranks();
    watch_newcomers();
  }
  const auto gone = processes_.wait(std::chrono::duration<double>(patience).count());
  if (is_over_) return std::nullopt;
  // The launcher may have ended this rank because of a rank on another host.
  const bool sees_all = static_cast<int>(watched_.size()) >= num_ranks_;
  std::optional<RunRecord> verdict;
  if (gone && sees_all && !was_ended_by_a_rank()) verdict = judge(watched_[*gone]);
  is_over_ = verdict || was_ended_by_a_rank();
  return verdict;
}

}  // namespace trireme

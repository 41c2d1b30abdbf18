#include "launcher/supervise/rank_watch.h"

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "launcher/host/error_report.h"
#include "launcher/host/machine.h"
#include "launcher/supervise/job_process.h"
#include "parallel/watch/stall_report.h"

namespace trireme {
namespace {

// A look goes through all processes of the host: often while the ranks come, seldom afterwards.
constexpr auto kWhileTheyCome = std::chrono::milliseconds(100);
constexpr auto kAfterwards = std::chrono::seconds(1);

}  // namespace

RankWatch::RankWatch(std::string tag, int num_ranks)
    : tag_(std::move(tag)), host_(host_name()), num_ranks_(num_ranks) {}

void RankWatch::look_for_ranks() {
  if (static_cast<int>(watched_.size()) >= num_ranks_ || Clock::now() < next_look_) return;
  for (const int process : tagged_processes(tag_)) {
    SharedBoard found = find_board(process, known_);
    if (!found.board) continue;
    entered_.emplace_back(static_cast<std::size_t>(found.board->size()));
    boards_.push_back(std::move(found));
  }
  next_look_ =
      Clock::now() + (boards_.empty() ? Clock::duration(kWhileTheyCome) : Clock::duration(kAfterwards));
}

void RankWatch::watch_newcomers() {
  for (std::size_t board = 0; board < boards_.size(); ++board) {
    for (int slot = 0; slot < boards_[board].board->size(); ++slot) {
      std::vector<bool>& entered = entered_[board];
      if (entered[static_cast<std::size_t>(slot)]) continue;
      const RankReading rank = boards_[board].board->read(slot);
      if (rank.process == 0) continue;
      entered[static_cast<std::size_t>(slot)] = true;
      if (rank.visible_process() == 0) continue;
      watched_.push_back({.board = board, .slot = slot});
      processes_.add(rank.process);
    }
  }
}

std::optional<std::string> RankWatch::last_word() const {
  for (const SharedBoard& one : boards_) {
    auto word = one.last_word->read();
    if (!word) continue;
    if (word->starts_with(kErrorPrefix)) word->erase(0, kErrorPrefix.size());
    return fmt::format("host {}: {}", host_, *word);
  }
  return std::nullopt;
}

// With a message that is written, or has no place here.
bool RankWatch::was_ended_by_a_rank() const {
  for (const SharedBoard& one : boards_) {
    for (int slot = 0; slot < one.board->size(); ++slot) {
      const RankReading rank = one.board->read(slot);
      if (rank.ended && !rank.finished) return true;
    }
  }
  return false;
}

std::optional<std::string> RankWatch::judge(const Place& place) const {
  const RankReading rank = boards_[place.board].board->read(place.slot);
  if (rank.ended) return std::nullopt;
  return fmt::format("host {}: {}", host_, describe_death(rank));
}

std::optional<std::string> RankWatch::wait(std::chrono::milliseconds patience) {
  if (!is_over_) {
    look_for_ranks();
    watch_newcomers();
  }
  const auto gone = processes_.wait(std::chrono::duration<double>(patience).count());
  if (is_over_) return std::nullopt;
  auto word = last_word();
  // Where others run elsewhere, their launcher may have ended this one for the sake of them.
  const bool sees_all = static_cast<int>(watched_.size()) >= num_ranks_;
  if (!word && gone && sees_all && !was_ended_by_a_rank()) word = judge(watched_[*gone]);
  is_over_ = word || was_ended_by_a_rank();
  return word;
}

}  // namespace trireme

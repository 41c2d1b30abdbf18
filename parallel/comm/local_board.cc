#include "parallel/comm/local_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace trireme {
namespace {

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Exchanges results that are not tensors.
void exchange_records(LocalMeeting& meeting, const LocalGroup& group) {
  if (meeting.signature.kind == CallKind::kAllGatherStrings) {
    for (CallPart& part : meeting.parts) meeting.texts.push_back(std::move(part.text));
  } else if (meeting.signature.kind == CallKind::kAllGatherValues) {
    for (const CallPart& part : meeting.parts)
      std::ranges::copy(part.values, std::back_inserter(meeting.values));
  } else if (meeting.signature.kind == CallKind::kSplit) {
    std::map<int, std::vector<int>> world_ranks_of_color;
    for (std::size_t m = 0; m < meeting.parts.size(); ++m) {
      std::vector<int>& world_ranks = world_ranks_of_color[meeting.parts[m].color];
      meeting.members.push_back(static_cast<int>(world_ranks.size()));
      world_ranks.push_back(group.world_ranks[m]);
    }
    std::map<int, std::shared_ptr<LocalGroup>> group_of_color;
    for (const auto& [color, world_ranks] : world_ranks_of_color) {
      group_of_color[color] = std::make_shared<LocalGroup>(world_ranks);
    }
    for (const CallPart& part : meeting.parts) meeting.groups.push_back(group_of_color[part.color]);
  }
}

}  // namespace

LocalBoard::LocalBoard(int num_ranks)
    : world_(std::make_shared<LocalGroup>(first_ranks(num_ranks))),
      ranks_(static_cast<std::size_t>(num_ranks)) {
  const auto board = RankBoard::in_process(num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    statuses_.push_back(std::make_shared<RankStatus>(board, rank, rank));
  }
}

std::shared_ptr<LocalMeeting> LocalBoard::post_collective(LocalGroup& group, int member,
                                                          const CallSignature& signature, CallPart part) {
  const auto m = static_cast<std::size_t>(member);
  const int world_rank = group.world_ranks[m];
  std::unique_lock lock(mutex_);
  throw_if_failed();
  const std::int64_t number = group.num_calls[m]++;
  std::shared_ptr<LocalMeeting>& slot = group.collectives[number];
  if (!slot) {
    slot = std::make_shared<LocalMeeting>();
    slot->signature = signature;
    slot->where = fmt::format("collective {} of group [{}]", number, fmt::join(group.world_ranks, ", "));
    slot->first_rank = world_rank;
    slot->parts.resize(group.world_ranks.size());
  }
  const std::shared_ptr<LocalMeeting> meeting = slot;
  if (meeting->signature != signature) disagree(*meeting, world_rank, signature);
  meeting->parts[m] = std::move(part);
  if (++meeting->num_arrived == meeting->parts.size()) {
    group.collectives.erase(number);
    carry_out(lock, *meeting, group, world_rank);
  }
  return meeting;
}

std::shared_ptr<LocalMeeting> LocalBoard::post_message(LocalGroup& group, int member, int peer, int tag,
                                                       const CallSignature& signature, CallPart part) {
  const bool sends = signature.kind == CallKind::kSend;
  const int sender = sends ? member : peer;
  const int receiver = sends ? peer : member;
  const int world_rank = group.world_ranks[static_cast<std::size_t>(member)];
  std::unique_lock lock(mutex_);
  throw_if_failed();
  const auto lane = group.lanes.try_emplace({sender, receiver, tag}).first;
  auto& waiting = lane->second.waiting;
  if (waiting.empty() || waiting.front()->signature.kind == signature.kind) {
    auto meeting = std::make_shared<LocalMeeting>();
    meeting->signature = signature;
    meeting->where =
        fmt::format("rank {} to rank {}, tag {}", group.world_ranks[static_cast<std::size_t>(sender)],
                    group.world_ranks[static_cast<std::size_t>(receiver)], tag);
    meeting->first_rank = world_rank;
    meeting->parts.resize(2);
    meeting->parts[sends ? 0 : 1] = std::move(part);
    meeting->num_arrived = 1;
    waiting.push_back(meeting);
    return meeting;
  }
  const std::shared_ptr<LocalMeeting> meeting = waiting.front();
  const CallSignature& other = meeting->signature;
  if (other.dtype != signature.dtype || other.in_elems != signature.in_elems) {
    disagree(*meeting, world_rank, signature);
  }
  waiting.pop_front();
  if (waiting.empty()) group.lanes.erase(lane);
  meeting->parts[sends ? 0 : 1] = std::move(part);
  meeting->num_arrived = 2;
  carry_out(lock, *meeting, group, world_rank);
  return meeting;
}

// Moves the data without holding the lock, so that other calls proceed. No other thread touches a running
// meeting.
void LocalBoard::carry_out(std::unique_lock<std::mutex>& lock, LocalMeeting& meeting, const LocalGroup& group,
                           int world_rank) {
  meeting.state = LocalMeeting::State::kRunning;
  lock.unlock();
  try {
    exchange_tensors(meeting.signature, meeting.parts);
    exchange_records(meeting, group);
  } catch (const std::exception& error) {
    lock.lock();
    fail_locked({world_rank, Error(ErrorCode::kRuntime, "{} ({}): {}", meeting.signature.to_string(),
                                   meeting.where, error.what())});
    meeting.state = LocalMeeting::State::kGathering;  // never to be completed: waiters see the failure
    meeting.changed.notify_all();
    throw_if_failed();
  }
  lock.lock();
  // Each rank's Work holds its tensors until its own wait().
  meeting.parts.clear();
  meeting.state = LocalMeeting::State::kDone;
  for (RankState& rank : ranks_) {
    if (rank.waits_for == &meeting) rank.waits_for = nullptr;
  }
  meeting.changed.notify_all();
}

void LocalBoard::wait(LocalMeeting& meeting, int world_rank) {
  std::unique_lock lock(mutex_);
  RankState& rank = ranks_[static_cast<std::size_t>(world_rank)];
  while (meeting.state != LocalMeeting::State::kDone) {
    // A running meeting uses this rank's tensors, so wait for its end even after the job has failed.
    if (meeting.state == LocalMeeting::State::kGathering) {
      rank.waits_for = &meeting;
      if (!failure_) fail_if_stuck(world_rank);
      if (failure_) {
        rank.waits_for = nullptr;
        throw_if_failed();
      }
    }
    meeting.changed.wait(lock);
  }
}

void LocalBoard::fail(LocalFailure failure) noexcept {
  const std::lock_guard lock(mutex_);
  fail_locked(std::move(failure));
}

void LocalBoard::finish(int world_rank) noexcept {
  const std::lock_guard lock(mutex_);
  ranks_[static_cast<std::size_t>(world_rank)].finished = true;
  if (!failure_) fail_if_stuck(world_rank);
}

std::optional<LocalFailure> LocalBoard::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void LocalBoard::throw_if_failed() const {
  if (!failure_) return;
  throw Error(ErrorCode::kCommunication, "rank {} failed: {}", failure_->rank, failure_->error.what());
}

void LocalBoard::fail_locked(LocalFailure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  for (const RankState& rank : ranks_) {
    if (rank.waits_for != nullptr) rank.waits_for->changed.notify_all();
  }
}

void LocalBoard::disagree(const LocalMeeting& meeting, int world_rank, const CallSignature& signature) {
  fail_locked({world_rank,
               Error(ErrorCode::kCommunication,
                     "ranks disagree about {}: rank {} called {}, rank {} called {}", meeting.where,
                     meeting.first_rank, meeting.signature.to_string(), world_rank, signature.to_string())});
  throw Error(ErrorCode::kCommunication, std::string(failure_->error.what()));
}

// See [Note: local ranks never hang].
void LocalBoard::fail_if_stuck(int world_rank) {
  std::string list;
  bool anybody_waits = false;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const LocalMeeting* meeting = ranks_[r].waits_for;
    if (!ranks_[r].finished && meeting == nullptr) return;  // may still post
    anybody_waits = anybody_waits || meeting != nullptr;
    list += meeting == nullptr ? fmt::format("; rank {} has finished", r)
                               : fmt::format("; rank {} waits in {} ({})", r, meeting->signature.to_string(),
                                             meeting->where);
  }
  if (!anybody_waits) return;
  fail_locked({world_rank, Error(ErrorCode::kCommunication, "deadlock, no rank can go on" + list)});
}

}  // namespace trireme

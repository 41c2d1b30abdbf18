#include "launcher/python/rank_team.h"

#include <utility>

#include "launcher/host/agreement.h"
#include "launcher/host/error_report.h"
#include "launcher/python/computing_thread.h"

namespace trireme {
namespace {

constexpr std::chrono::milliseconds kPollInterval{50};

template <class Holds>
void spin_until(const Holds& holds, std::chrono::microseconds limit) {
  if (limit.count() == 0) return;
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds() && std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

RankTeam::RankTeam(std::vector<std::shared_ptr<Communicator>> comms, FirstRank first,
                   std::chrono::microseconds spin)
    : comms_(std::move(comms)), first_(first), spin_(spin), num_seen_(comms_.size()) {
  for (int rank = first_ == FirstRank::kOnCaller ? 1 : 0; rank < size(); ++rank) add_thread(rank);
}

RankTeam::~RankTeam() {
  post({});
  for (std::thread& thread : threads_) thread.join();
}

void RankTeam::add_thread(int rank) {
  {
    const std::lock_guard lock(mutex_);
    num_seen_[static_cast<std::size_t>(rank)] = num_posted_;
  }
  const BlockedSignals blocked;
  threads_.emplace_back([this, rank] { serve(rank); });
}

void RankTeam::run(const Work& work, const Poll& poll) {
  if (const auto broken = this->broken()) throw *broken;
  if (first_ == FirstRank::kOnThread) {
    const auto command = post(work);
    wait_until([&] { return command->left == 0; }, poll);
    return throw_failure();
  }
  const auto command = post(work, 1);
  {
    const CallerComputes computes;
    execute(*command, 0);
  }
  spin_until([&] { return command->num_done.load(std::memory_order_acquire) == size(); }, spin_);
  wait_until([&] { return command->left == 0; }, poll);
  throw_failure();
}

void RankTeam::start(Work work) {
  if (const auto broken = this->broken()) throw *broken;
  if (std::ssize(threads_) < size()) add_thread(0);
  started_ = post(std::move(work));
}

bool RankTeam::wait(const Poll& poll) {
  const auto started = started_;
  for (;;) {
    wait_until([&] { return num_paused_ == started->left; }, poll);
    if (started->left == 0 || given_up_) break;
    if (!failure_) return true;
    resume();  // the failure of another rank ends the work of this one, too
  }
  started_.reset();
  throw_failure();
  return false;
}

void RankTeam::resume() {
  {
    const std::lock_guard lock(mutex_);
    num_paused_ = 0;
  }
  post({});
}

void RankTeam::pause(int rank) {
  {
    const std::lock_guard lock(mutex_);
    ++num_paused_;
  }
  changed_.notify_all();
  serve(rank);
}

void RankTeam::serve(int rank) {
  std::uint64_t& seen = num_seen_[static_cast<std::size_t>(rank)];
  for (;;) {
    std::shared_ptr<Command> command;
    spin_until([&] { return announced_.load(std::memory_order_acquire) != seen; }, spin_);
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [&] { return seen != num_posted_; });
      seen = num_posted_;
      command = command_;
    }
    if (rank < command->first) continue;
    if (!command->work) return;
    execute(*command, rank);
  }
}

void RankTeam::execute(Command& command, int rank) {
  std::optional<Error> failure;
  bool agreed = false;
  try {
    command.work(rank);
  } catch (const AgreedError& error) {
    failure = error;
    agreed = true;
  } catch (const std::exception& error) {
    const Error own = as_error(error);
    failure = size() > 1 ? own.saying(naming_rank(rank, own.what())) : own;
    if (first_ == FirstRank::kOnCaller) comm(rank)->abort(own);  // else it would end this process, too
  }
  {
    const std::lock_guard lock(mutex_);
    if (failure && !failure_) failure_ = failure;
    if (failure && !agreed && !broken_) broken_ = failure;
    --command.left;
  }
  changed_.notify_all();
  command.num_done.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<RankTeam::Command> RankTeam::post(Work work, int first) {
  auto command = std::make_shared<Command>();
  command->work = std::move(work);
  command->first = first;
  command->left = size();
  {
    const std::lock_guard lock(mutex_);
    command_ = command;
    ++num_posted_;
  }
  announced_.store(num_posted_, std::memory_order_release);
  posted_.notify_all();
  return command;
}

void RankTeam::wait_until(const std::function<bool()>& holds, const Poll& poll) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kPollInterval, [&] { return given_up_ || holds(); })) {
    if (!poll) continue;
    lock.unlock();
    poll();
    lock.lock();
  }
}

void RankTeam::give_up(const Error& verdict) {
  {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    broken_ = failure_ = verdict;
  }
  changed_.notify_all();
}

std::optional<Error> RankTeam::broken() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

void RankTeam::throw_failure() {
  std::optional<Error> failure;
  {
    const std::lock_guard lock(mutex_);
    failure = std::exchange(failure_, std::nullopt);
  }
  if (failure) throw *failure;
}

}  // namespace trireme

#include "launcher/python/rank_team.h"

#include <pthread.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "launcher/host/agreement.h"
#include "launcher/host/error_report.h"

namespace trireme {
namespace {

constexpr std::chrono::milliseconds kPollInterval{50};

/// Blocks all signals of the calling thread, and of threads that it starts, during its lifetime.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &former_, nullptr); }

 private:
  sigset_t former_;
};

}  // namespace

RankTeam::RankTeam(int num_ranks) : world_(num_ranks), num_seen_(static_cast<std::size_t>(num_ranks)) {
  for (int rank = 0; rank < num_ranks; ++rank) comms_.push_back(world_.communicator(rank));
  const BlockedSignals blocked;
  for (int rank = 0; rank < num_ranks; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
}

RankTeam::~RankTeam() {
  post({});
  for (std::thread& thread : threads_) thread.join();
}

void RankTeam::run(Work work, const Poll& poll) {
  if (broken_) throw *broken_;
  const auto command = post(std::move(work));
  wait_until([&] { return command->left == 0; }, poll);
  throw_failure();
}

void RankTeam::start(Work work) {
  if (broken_) throw *broken_;
  started_ = post(std::move(work));
}

bool RankTeam::wait(const Poll& poll) {
  const auto started = started_;
  for (;;) {
    wait_until([&] { return num_paused_ == started->left; }, poll);
    if (started->left == 0) break;
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
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [&] { return seen != num_posted_; });
      seen = num_posted_;
      command = command_;
    }
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
    comm(rank)->abort(own);
  }
  {
    const std::lock_guard lock(mutex_);
    if (failure && !failure_) failure_ = failure;
    if (failure && !agreed && !broken_) broken_ = failure;
    --command.left;
  }
  changed_.notify_all();
}

std::shared_ptr<RankTeam::Command> RankTeam::post(Work work) {
  auto command = std::make_shared<Command>(Command{.work = std::move(work), .left = size()});
  {
    const std::lock_guard lock(mutex_);
    command_ = command;
    ++num_posted_;
  }
  posted_.notify_all();
  return command;
}

void RankTeam::wait_until(const std::function<bool()>& holds, const Poll& poll) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kPollInterval, holds)) {
    if (!poll) continue;
    lock.unlock();
    poll();
    lock.lock();
  }
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

#include "parallel/watch/watchdog.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "parallel/comm/communicator.h"
#include "parallel/watch/silent_peers.h"
#include "parallel/watch/stall_report.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

// A launcher that ends a job kills all ranks within microseconds. A rank that is still alive after this delay
// has seen an unintended death.
constexpr auto kDeathDelay = std::chrono::milliseconds(50);
// The rank that should end the job may itself be stopped; after this time another one does.
constexpr double kPatienceS = 10.0;

// Poll interval for ranks that have not entered the board yet: their ends are detected only after that.
constexpr double kArrivalPollS = 0.02;

// Maximum poll interval of a rank's own status: a learned limit may be far below the previous one.
constexpr double kPollS = 0.25;

// [Note: paused ranks] If a thread wakes up this much later than requested, the process was paused, not only
// waiting for a core.
constexpr double kLateS = 0.5;
constexpr std::size_t kNumPauses = 64;

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

}  // namespace

Watchdog::Watchdog(Options options)
    : options_(std::move(options)),
      limit_{.timeout_s = options_.timeout_s, .grace_s = options_.grace_s, .note = options_.limit_note},
      known_(static_cast<std::size_t>(options_.status->board().size())) {
  if (options_.status->claim_watch()) thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  end_ = true;
  processes_.wake();
  thread_.join();
  options_.status->release_watch();
}

Watchdog::Scope::Scope(Watchdog* watchdog, std::string text)
    : Scope(watchdog == nullptr ? nullptr : watchdog->options_.status.get(), std::move(text)) {}

Watchdog::Scope::Scope(RankStatus* status, std::string text) : status_(status) {
  if (status_ != nullptr) status_->enter(std::move(text));
}

Watchdog::Scope::~Scope() {
  if (status_ != nullptr) status_->leave();
}

void Watchdog::set_limit(double timeout_s, double grace_s, const std::string& note) {
  {
    const std::lock_guard lock(mutex_);
    limit_ = {.timeout_s = timeout_s, .grace_s = grace_s, .note = note};
  }
  processes_.wake();
}

void Watchdog::set_tight_limit(Part part, double timeout_s, const std::string& note) {
  const std::lock_guard lock(mutex_);
  tight_limits_[static_cast<std::size_t>(part)] = {
      .timeout_s = timeout_s, .grace_s = limit_.grace_s, .note = note, .is_learned = true};
}

Watchdog::Limit Watchdog::limit() const {
  const std::lock_guard lock(mutex_);
  const int part = part_;
  if (part == kNoPart) return limit_;
  return tight_limits_[static_cast<std::size_t>(part)].value_or(limit_);
}

void Watchdog::note_pause(Clock::time_point before, double expected_s) {
  const Clock::time_point now = Clock::now();
  const double late_s = Seconds(now - before).count() - expected_s;
  if (late_s < kLateS) return;
  paused_s_ = paused_s_ + late_s;
  pauses_.push_back({.end = now, .seconds = late_s});
  if (pauses_.size() > kNumPauses) pauses_.pop_front();
}

// The part of the last `for_s` seconds that was not paused.
double Watchdog::running_s(double for_s) const {
  const Clock::time_point now = Clock::now();
  double paused = 0;
  for (const Pause& pause : pauses_) {
    paused += std::clamp(for_s - Seconds(now - pause.end).count(), 0.0, pause.seconds);
  }
  return for_s - paused;
}

void Watchdog::watch_newcomers() {
  const RankStatus& status = *options_.status;
  const RankReading own = status.board().read(status.slot());
  for (int slot = 0; slot < status.board().size(); ++slot) {
    if (known_[static_cast<std::size_t>(slot)]) continue;
    const RankReading other = status.board().read(slot);
    if (other.process == 0) continue;
    known_[static_cast<std::size_t>(slot)] = true;
    const int process = other.visible_process();
    if (process == 0 || process == own.process) continue;
    watched_.push_back(slot);
    processes_.add(process);
  }
}

// Continues stopped processes. A launcher may wait for a process that was stopped in mid-communication, and
// would then not end the job.
void Watchdog::wake_stopped() const {
  const RankBoard& board = options_.status->board();
  for (int slot = 0; slot < board.size(); ++slot) {
    const int process = board.read(slot).visible_process();
    if (process > 0 && is_stopped(process)) kill(process, SIGCONT);
  }
}

// Polls a few times per timeout, so that actions need not wake it.
void Watchdog::run() {
  const RankStatus& status = *options_.status;
  bool full = false;
  double stopped_s = 0;  // time for which another rank has been seen stopped
  while (!end_) {
    if (!full) {
      full = status.board().is_full();
      watch_newcomers();
    }
    const Limit limit = this->limit();
    double poll_s = limit.timeout_s > 0 ? std::min(limit.timeout_s / 8, kPollS) : -1;
    if (!full) poll_s = poll_s < 0 ? kArrivalPollS : std::min(poll_s, kArrivalPollS);
    const Clock::time_point before = Clock::now();
    const double paused_before = paused_s_;
    const auto gone = processes_.wait(poll_s);
    if (end_) return;
    if (poll_s > 0) note_pause(before, poll_s);
    if (gone) {
      report_death(watched_[*gone]);
    } else if (limit.timeout_s > 0) {
      const RankReading own = status.board().read(status.slot());
      const double late_s = own.busy || own.waits ? running_s(own.for_s) : 0;
      if (late_s > limit.timeout_s) {
        report_stall(own, limit);
        continue;
      }
      // A stopped rank is visible in any part of the run, so the limit of a step applies.
      const Limit of_stopped = [&] {
        const std::lock_guard lock(mutex_);
        return tight_limits_[static_cast<std::size_t>(Part::kStep)].value_or(limit);
      }();
      if (late_s < kLateS || paused_s_ != paused_before || !is_any_stopped(status.board())) {
        stopped_s = 0;
      } else {
        stopped_s += Seconds(Clock::now() - before).count();
      }
      if (stopped_s > of_stopped.timeout_s) report_stall(own, of_stopped);
    }
  }
}

void Watchdog::report_death(int slot) {
  RankBoard& board = options_.status->board();
  std::this_thread::sleep_for(kDeathDelay);
  const RankReading rank = board.read(slot);
  if (end_ || rank.ended) return;
  if (!options_.every_rank_ends && !board.claim_last_word()) {
    // Another rank reports it, and the launcher ends this process as well, unless one of the two hangs.
    const auto patience = std::chrono::steady_clock::now() + std::chrono::duration<double>(kPatienceS);
    while (!end_ && std::chrono::steady_clock::now() < patience) std::this_thread::sleep_for(kDeathDelay);
    if (end_) return;
  }
  wake_stopped();
  options_.end_job(death_of(rank));
}

void Watchdog::report_stall(const RankReading& own, const Limit& limit) {
  RankBoard& board = options_.status->board();
  const bool is_mine = options_.every_rank_ends || board.claim_last_word();
  if (!is_mine && running_s(own.for_s) < limit.timeout_s + kPatienceS) return;
  const std::string value =
      limit.is_learned ? fmt::format("auto: {:.2f} s", limit.timeout_s) : fmt::format("{}", limit.timeout_s);
  const std::vector<SilentPeer> silent = find_silent_peers();
  const Error stall = stall_of(board, value, limit.note, silent);
  // A host that does not answer does not report either.
  if (limit.grace_s > 0 && silent.empty()) {
    options_.report(stall);
    processes_.wait(limit.grace_s);
    if (end_) return;
  }
  // Ends the job even if a rank has moved since, because it has been reported.
  wake_stopped();
  options_.end_job(stall);
}

double grace_for_machines(bool several) {
  return several ? 2.0 : 0.0;
}

// On asynchronous devices an action ends when it is enqueued, so the waits are watched.
std::unique_ptr<Watchdog> watch_over(const std::shared_ptr<Communicator>& comm, double timeout_s) {
  if (!comm->status()) return nullptr;
  const int ranks_here = comm->status()->board().size();
  if (timeout_s <= 0 && ranks_here == 1) return nullptr;
  return std::make_unique<Watchdog>(
      Watchdog::Options{.status = comm->status(),
                        .timeout_s = timeout_s,
                        .grace_s = grace_for_machines(ranks_here < comm->size()),
                        .report = [](const Error& error) { log_error(error.what()); },
                        .end_job = [comm](const Error& error) { comm->abort(error); }});
}

}  // namespace trireme

#include "parallel/watchdog.h"

#include <chrono>
#include <utility>

#include "parallel/comm/communicator.h"
#include "parallel/stall_report.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

// A launcher that ends a job kills all ranks within microseconds: who is alive after this long sees a death
// that nobody wanted.
constexpr auto kDeathDelay = std::chrono::milliseconds(50);
// Whoever has the last word may itself be stopped: after so long another one ends the job.
constexpr double kPatienceS = 10.0;

std::vector<int> other_processes(const RankStatus& status) {
  const RankReading own = status.board().read(status.place());
  std::vector<int> places;
  for (int place = 0; place < status.board().size(); ++place) {
    const RankReading other = status.board().read(place);
    const bool visible = other.process_namespace == own.process_namespace;
    if (other.process != own.process && visible) places.push_back(place);
  }
  return places;
}

std::vector<int> processes_at(const RankBoard& board, const std::vector<int>& places) {
  std::vector<int> processes;
  for (const int place : places) processes.push_back(board.read(place).process);
  return processes;
}

}  // namespace

Watchdog::Watchdog(Options options)
    : options_(std::move(options)),
      places_(other_processes(*options_.status)),
      processes_(processes_at(options_.status->board(), places_)),
      thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  end_ = true;
  processes_.wake();
  thread_.join();
}

Watchdog::Scope::Scope(Watchdog* watchdog, std::string text) : watchdog_(watchdog), text_(std::move(text)) {
  if (watchdog_ == nullptr) return;
  outer_ = std::exchange(watchdog_->innermost_, this);
  watchdog_->options_.status->begin(text_);
}

Watchdog::Scope::~Scope() {
  if (watchdog_ == nullptr) return;
  watchdog_->innermost_ = outer_;
  RankStatus& status = *watchdog_->options_.status;
  if (outer_ != nullptr) {
    status.begin(outer_->text_);
  } else {
    status.end_action();
  }
}

// Looks a few times in a timeout: nobody has to wake it for every action.
void Watchdog::run() {
  const double poll_s = options_.timeout_s > 0 ? options_.timeout_s / 8 : -1;
  const RankStatus& status = *options_.status;
  while (!end_) {
    const auto gone = processes_.wait(poll_s);
    if (end_) return;
    if (gone) {
      report_death(places_[*gone]);
    } else if (options_.timeout_s > 0) {
      const RankReading own = status.board().read(status.place());
      if (own.busy && own.for_s > options_.timeout_s) report_stall(own);
    }
  }
}

void Watchdog::report_death(int place) {
  RankBoard& board = options_.status->board();
  std::this_thread::sleep_for(kDeathDelay);
  const RankReading rank = board.read(place);
  if (end_ || rank.ended || !board.claim_last_word()) return;
  options_.end_job(describe_death(rank));
}

void Watchdog::report_stall(const RankReading& own) {
  RankBoard& board = options_.status->board();
  if (!board.claim_last_word() && own.for_s < options_.timeout_s + kPatienceS) return;
  const std::string message = describe_stall(board, options_.timeout_s);
  if (options_.grace_s > 0) {
    options_.report(message);
    processes_.wait(options_.grace_s);
    if (end_) return;
  }
  // Whatever has moved meanwhile: it has been reported, and somebody ends the job.
  options_.end_job(message);
}

// On devices that run behind the host an action ends when it is enqueued: there it is the waiting that is
// watched.
std::unique_ptr<Watchdog> watch_over(const std::shared_ptr<Communicator>& comm, double timeout_s) {
  if (!comm->status()) return nullptr;
  const int ranks_here = comm->status()->board().size();
  if (timeout_s <= 0 && ranks_here == 1) return nullptr;
  return std::make_unique<Watchdog>(
      Watchdog::Options{.status = comm->status(),
                        .timeout_s = timeout_s,
                        .grace_s = ranks_here < comm->size() ? 2.0 : 0.0,
                        .report = [](const std::string& message) { log_error(message); },
                        .end_job = [comm](const std::string& message) { comm->abort(message); }});
}

}  // namespace trireme

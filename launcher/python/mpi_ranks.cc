#include "launcher/python/mpi_ranks.h"

#include <csignal>
#include <utility>

#include "launcher/host/error_report.h"
#include "launcher/train/shared_cores.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

LaunchEnvironment launch_under_mpi() {
  LaunchEnvironment launch = read_launch_environment();
  // mpi4py also runs without mpirun, as a job of one rank.
  if (!launch.under_mpi()) launch.launcher = "mpi4py";
  return launch;
}

}  // namespace

MpiRanks::MpiRanks(int fortran_comm) : launch_(launch_under_mpi()) {
  // Writing to a dead rank on another host must not kill this one: mpirun would name the wrong rank.
  std::signal(SIGPIPE, SIG_IGN);
  rank_ = std::make_unique<MpiRank>(
      MpiRank::LaunchInfo{.board_file = launch_.board_file,
                          .rank = launch_.rank,
                          .local_rank = launch_.local_rank,
                          .num_local_ranks = launch_.num_local_ranks,
                          .report = [](const Error& error) { report_error(error); }});
  session_ = std::make_unique<MpiSession>(*rank_, ForeignMpi{fortran_comm});
  sleep_where_cores_are_shared(*session_->world(), /*threads=*/1);
  const auto hear_of = [this](const Error& verdict) { hear(verdict); };
  watchdog_ = std::make_unique<Watchdog>(
      Watchdog::Options{.status = rank_->status(),
                        .grace_s = grace_for_machines(launch_.num_local_ranks < launch_.num_ranks),
                        .report = [](const Error&) {},
                        .end_job = hear_of,
                        .every_rank_ends = true});
}

MpiRanks::~MpiRanks() = default;

std::shared_ptr<Communicator> MpiRanks::join(double timeout_s) {
  watchdog_->set_limit(timeout_s, grace_for_machines(launch_.num_local_ranks < launch_.num_ranks), "");
  auto comm = session_->make_communicator();
  sleep_where_cores_are_shared(*comm, /*threads=*/1);
  return comm;
}

int MpiRanks::listen(std::function<void(const Error& verdict)> listener) {
  const std::lock_guard lock(mutex_);
  if (failure_) listener(*failure_);
  listeners_.push_back(std::move(listener));
  return static_cast<int>(listeners_.size()) - 1;
}

void MpiRanks::unlisten(int listener) {
  const std::lock_guard lock(mutex_);
  listeners_[static_cast<std::size_t>(listener)] = nullptr;
}

void MpiRanks::hear(const Error& verdict) {
  fail(verdict);
  const std::lock_guard lock(mutex_);
  for (const auto& listener : listeners_) {
    if (listener) listener(verdict);
  }
}

void MpiRanks::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
}

bool MpiRanks::has_failed() const {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

void MpiRanks::end_job() noexcept {
  if (failure_) rank_->abort(*failure_);
}

}  // namespace trireme

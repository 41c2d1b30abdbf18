#include "launcher/train/rank_session.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/host/agreement.h"
#include "launcher/host/error_report.h"
#include "launcher/train/mpirun_watch.h"
#include "launcher/train/shared_cores.h"
#include "launcher/train/termination_delay.h"
#include "parallel/comm/local.h"
#include "parallel/comm/mpi.h"
#include "parallel/watch/process_watch.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

constexpr const char* kDefaultLimit = ", its default, as the job's own is not known yet";

void record(const RankWork& work, RunRecord::Event event, const Error& error) {
  if (work.records != nullptr) work.records->write(record_of(event, error));
}

ExitCode report_agreed(const Communicator& comm, const RankWork& work, const AgreedError& error) {
  if (comm.rank() == 0) {
    record(work, RunRecord::Event::kFailed, error);
    report_error(error);
  }
  return exit_code(error.code());
}

ExitCode run_alone(const RankWork& work) {
  if (work.read_limit) work.read_limit();
  RankSession session(LocalWorld(1).communicator(0), nullptr);
  try {
    return work.run(session);
  } catch (const AgreedError& error) {
    return report_agreed(*session.comm(), work, error);
  } catch (const std::exception& failure) {
    record(work, RunRecord::Event::kFailed, as_error(failure));
    throw;
  }
}

double default_limit() {
  return ParallelSection{}.timeout_s.seconds;
}

/// Prints and records the error that ends the job: a failure of this rank, or a verdict on another.
void report(const RankWork& work, int rank, const Error& error) {
  record(work, error.facts().rank == rank ? RunRecord::Event::kFailed : RunRecord::Event::kVerdict, error);
  report_error(error);
}

std::unique_ptr<Watchdog> watch(MpiRank& rank, const LaunchEnvironment& launch, const RankWork& work,
                                double timeout_s, const std::string& note, double grace_s) {
  return std::make_unique<Watchdog>(Watchdog::Options{.status = rank.status(),
                                                      .timeout_s = timeout_s,
                                                      .grace_s = grace_s,
                                                      .limit_note = note,
                                                      .report =
                                                          [&work, &launch](const Error& verdict) {
                                                            record(work, RunRecord::Event::kVerdict, verdict);
                                                            report_error(verdict, launch.rank);
                                                          },
                                                      .end_job =
                                                          [&rank](const Error& verdict) {
                                                            rank.abort(verdict);
                                                            // MPI did not run: mpirun ends the job of a
                                                            // process that fails.
                                                            _exit(static_cast<int>(ExitCode::kFailed));
                                                          }});
}

ExitCode run_in_session(MpiRank& rank, const MpiSession& mpi, Watchdog* watchdog, const RankWork& work) {
  const auto& comm = mpi.world();
  RankSession session(comm, watchdog);
  try {
    {
      const Watchdog::Scope scope(rank.status().get(), "the first exchange");
      sleep_where_cores_are_shared(*comm, /*threads=*/1);
    }
    return work.run(session);
  } catch (const AgreedError& error) {
    return report_agreed(*comm, work, error);
  } catch (const std::exception& failure) {
    const Error error = as_error(failure);
    ErrorFacts facts = error.facts();
    facts.rank = comm->rank();
    // Does not return: other ranks may be waiting for this one, so it ends the job.
    comm->abort(error.about(std::move(facts)));
    return ExitCode::kFailed;
  }
}

// Waits until all ranks of the machine are here; the first one also waits for the others' processes to end.
// So a rank that hangs while exiting is still named, except in the last moments of the first one.
void wait_for_others(RankStatus& status) {
  constexpr auto kTimeToBeNamed = std::chrono::milliseconds(500);
  const Watchdog::Scope scope(&status, "the exit");
  const RankBoard& board = status.board();
  status.finish();
  status.begin_wait();
  while (!board.all_finished()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (status.slot() == 0) {
    ProcessWatch others;
    std::vector<int> places;
    for (int place = 1; place < board.size(); ++place) {
      const int process = board.read(place).visible_process();
      if (process == 0) continue;  // in another container, where no rank can see it exit
      others.add(process);
      places.push_back(place);
    }
    while (others.num_watched() > 0) {
      const auto gone = others.wait(-1);
      // If it did not exit cleanly, the watchdog names it.
      if (gone && !board.read(places[*gone]).ended) std::this_thread::sleep_for(kTimeToBeNamed);
    }
  }
  status.end_wait();
}

ExitCode run_under_mpi(const LaunchEnvironment& launch, const RankWork& work) {
  // Writing to a dead rank on another host must not kill this one: mpirun would name the wrong rank.
  std::signal(SIGPIPE, SIG_IGN);
  std::optional<MpirunWatch> mpirun_watch(std::in_place, launch.local_rank);
  const TerminationDelay delay;
  MpiRank rank({.board_file = launch.board_file,
                .rank = launch.rank,
                .local_rank = launch.local_rank,
                .num_local_ranks = launch.num_local_ranks,
                .report = [&](const Error& error) { report(work, launch.rank, error); }});
  double limit = default_limit();
  std::string note = kDefaultLimit;
  const double grace = grace_for_machines(launch.num_local_ranks < launch.num_ranks);
  auto watchdog = watch(rank, launch, work, limit, note, grace);
  if (work.read_limit) {
    const Watchdog::Scope scope(rank.status().get(), "the reading of the job file");
    limit = work.read_limit();
    note.clear();
    watchdog->set_limit(limit, grace, note);
  }
  std::optional<Watchdog::Scope> scope(std::in_place, rank.status().get(), "MPI_Init");
  const std::shared_ptr<RankStatus> before = rank.status();
  before->begin_wait();
  std::optional<MpiSession> session(std::in_place, rank);
  before->end_wait();
  mpirun_watch.reset();
  scope.reset();
  if (rank.status() != before) watchdog = watch(rank, launch, work, limit, note, grace);
  const ExitCode code = run_in_session(rank, *session, watchdog.get(), work);
  scope.emplace(rank.status().get(), "MPI_Finalize");
  session.reset();
  scope.reset();
  wait_for_others(*rank.status());
  return code;
}

}  // namespace

void RankSession::set_limit(double timeout_s) {
  if (watchdog_ == nullptr) return;
  const int ranks_here = comm_->status() ? comm_->status()->board().size() : 1;
  watchdog_->set_limit(timeout_s, grace_for_machines(ranks_here < comm_->size()), "");
}

ExitCode run_as_rank(const LaunchEnvironment& launch, const RankWork& work) {
  return launch.under_mpi() ? run_under_mpi(launch, work) : run_alone(work);
}

}  // namespace trireme

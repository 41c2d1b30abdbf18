#include "parallel/comm/mpi.h"

#include <dlfcn.h>
#include <mpi.h>

#include <csignal>
#include <exception>
#include <string_view>
#include <utility>

#include "parallel/comm/board_memory.h"
#include "parallel/comm/mpi_board.h"
#include "parallel/comm/mpi_communicator.h"
#include "parallel/comm/mpi_job.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

constexpr const char* kAlgorithm = "coll_libnbc_iallreduce_algorithm";
constexpr int kUnset = 0;
constexpr int kRabenseifner = 3;

// Checks, because the variable may be missing (another library or version), of another type, or read-only.
bool holds_one_int(int index) {
  int name_length = 0, description_length = 0, verbosity = 0, binding = 0, scope = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_enum values = MPI_T_ENUM_NULL;
  const int result = MPI_T_cvar_get_info(index, nullptr, &name_length, &verbosity, &type, &values, nullptr,
                                         &description_length, &binding, &scope);
  return result == MPI_SUCCESS && type == MPI_INT && binding == MPI_T_BIND_NO_OBJECT;
}

void choose_all_reduce() {
  int index = 0;
  if (MPI_T_cvar_get_index(kAlgorithm, &index) != MPI_SUCCESS || !holds_one_int(index)) return;
  MPI_T_cvar_handle handle = nullptr;
  int count = 0;
  if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) return;
  int algorithm = kUnset;
  const bool is_unset =
      count == 1 && MPI_T_cvar_read(handle, &algorithm) == MPI_SUCCESS && algorithm == kUnset;
  if (is_unset) MPI_T_cvar_write(handle, &kRabenseifner);
  MPI_T_cvar_handle_free(&handle);
}

// Requests Rabenseifner's all-reduce, in which every rank sends the minimum. The default of Open MPI 4.1 for
// sums in place is a binomial tree: a rank sends the whole buffer log N times, without overlap. Between four
// hosts at 100 Mbit/s it took three times as long. A user's choice
// (OMPI_MCA_coll_libnbc_iallreduce_algorithm, --mca) is kept; other libraries are not changed. Call between
// MPI_Init and MPI_Finalize; the result is the same on all ranks.
void choose_mpi_algorithms() {
  // Request MPI's own thread level, because Open MPI 4.1 applies the level of this request to all of MPI.
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (MPI_T_init_thread(level, &level) != MPI_SUCCESS) return;
  choose_all_reduce();
  MPI_T_finalize();
}

bool is_of_mpi(const struct sigaction& action) {
  if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) return false;
  Dl_info where = {};
  if (dladdr(reinterpret_cast<void*>(action.sa_handler), &where) == 0) return false;
  const std::string_view library = where.dli_fname;
  return library.find("libopen-pal") != library.npos || library.find("libucs") != library.npos;
}

// Removes the handlers of crashes that Open MPI and its UCX install, because a rank may wait in them for
// ever; see [Note: stacks of crashes] in launcher/host/fatal_signals.h.
void remove_crash_handlers() {
  for (const int signal : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV}) {
    struct sigaction action = {};
    if (sigaction(signal, nullptr, &action) == 0 && is_of_mpi(action)) std::signal(signal, SIG_DFL);
  }
}

// Serialized is enough for ranks that communicate from one thread. MPI_THREAD_MULTIPLE also lets any thread
// abort, and a progress thread move data.
void start_mpi() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  TRIREME_CHECK(initialized == 0, "MPI is already initialized; a process can have only one MpiSession");
  int provided = MPI_THREAD_SINGLE;
  const int result = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (result != MPI_SUCCESS) {
    throw Error(ErrorCode::kCommunication, "MPI_Init_thread failed with code {}", result);
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    throw Error(ErrorCode::kCommunication,
                "this MPI library allows calls from the main thread only; use an Open MPI that supports "
                "MPI_THREAD_SERIALIZED (ompi_info shows its thread support)");
  }
}

void check_foreign(ForeignMpi foreign) {
  if (!mpi_is_running()) {
    throw Error(
        ErrorCode::kCommunication,
        "MPI does not run in this process's Open MPI (libmpi.so.40): the communicator belongs to another "
        "MPI library, or MPI has ended; install an mpi4py that uses the same Open MPI");
  }
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_MULTIPLE) {
    throw Error(ErrorCode::kCommunication,
                "MPI runs without MPI_THREAD_MULTIPLE, which ranks on threads of their own need; leave "
                "mpi4py.rc.thread_level at its default");
  }
  int comparison = MPI_UNEQUAL;
  const int result = MPI_Comm_compare(MPI_Comm_f2c(foreign.fortran_comm), MPI_COMM_WORLD, &comparison);
  if (result == MPI_SUCCESS && (comparison == MPI_IDENT || comparison == MPI_CONGRUENT)) return;
  throw Error(
      ErrorCode::kUnsupported,
      "the communicator does not have all ranks of MPI_COMM_WORLD in their order: pass MPI.COMM_WORLD");
}

}  // namespace

MpiRank::MpiRank(const LaunchInfo& launch) : job_(std::make_shared<MpiJob>()) {
  job_->rank = launch.rank;
  job_->outlives_mpi = true;
  job_->report = launch.report;
  std::shared_ptr<RankBoard> board;
  if (!launch.board_file.empty() && launch.local_rank < launch.num_local_ranks) {
    board = open_board(launch.board_file, launch.num_local_ranks, launch.local_rank);
  }
  job_->status = board ? std::make_shared<RankStatus>(board, launch.local_rank, launch.rank)
                       : std::make_shared<RankStatus>(RankBoard::in_process(1), 0, launch.rank);
}

MpiRank::~MpiRank() {
  job_->status->end();
}

const std::shared_ptr<RankStatus>& MpiRank::status() const {
  return job_->status;
}

void MpiRank::abort(const Error& error) noexcept {
  job_->abort(error);
}

MpiSession::MpiSession() : MpiSession(std::make_shared<MpiJob>()) {}

MpiSession::MpiSession(const MpiRank& rank) : MpiSession(rank.job_) {}

MpiSession::MpiSession(std::shared_ptr<MpiJob> job)
    : job_(std::move(job)), num_exceptions_(std::uncaught_exceptions()) {
  start_mpi();
  join();
}

MpiSession::MpiSession(const MpiRank& rank, ForeignMpi foreign)
    : job_(rank.job_), num_exceptions_(std::uncaught_exceptions()) {
  check_foreign(foreign);
  job_->ends_mpi = false;
  join();
}

void MpiSession::join() {
  remove_crash_handlers();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  choose_mpi_algorithms();
  job_->phase = MpiJob::Phase::kRunning;
  MPI_Comm_rank(MPI_COMM_WORLD, &job_->rank);
  MPI_Comm node = MPI_COMM_NULL;
  job_->check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, job_->rank, MPI_INFO_NULL, &node),
              "MPI_Comm_split_type");
  MPI_Comm_rank(node, &local_rank_);
  MPI_Comm_size(node, &num_local_ranks_);
  if (!is_common_board(node, job_->status.get())) job_->status = join_board(node, job_->rank);
  MPI_Comm_free(&node);
  world_ = make_communicator();
}

MpiSession::MpiSession(MpiSession&& other) noexcept
    : job_(std::move(other.job_)),
      world_(std::move(other.world_)),
      local_rank_(other.local_rank_),
      num_local_ranks_(other.num_local_ranks_),
      num_exceptions_(other.num_exceptions_) {}

MpiSession::~MpiSession() {
  if (!job_ || job_->aborted) return;
  if (std::uncaught_exceptions() > num_exceptions_) {
    job_->abort(Error(ErrorCode::kRuntime, "ends the job: an exception left the MPI session"));
    return;
  }
  job_->set_progress(false);
  job_->release_abandoned();
  if (!job_->abandoned.empty()) log_warning("MPI ends while operations without a wait() are in flight");
  world_.reset();
  job_->phase = MpiJob::Phase::kAfter;
  if (!job_->ends_mpi) return;
  job_->status->begin_wait();
  MPI_Finalize();
  job_->status->end_wait();
  if (!job_->outlives_mpi) job_->status->end();
}

std::shared_ptr<Communicator> MpiSession::make_communicator(std::int64_t max_count) const {
  TRIREME_CHECK(max_count >= 1 && max_count <= kMaxMpiCount, "max_count {} is outside of [1, {}]", max_count,
                kMaxMpiCount);
  MPI_Comm comm = MPI_COMM_NULL;
  job_->check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return std::make_shared<MpiCommunicator>(job_, comm, max_count);
}

}  // namespace trireme

#include "parallel/comm/mpi_job.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "parallel/comm/communicator.h"
#include "runtime/base/error.h"
#include "runtime/base/lines_error.h"

namespace trireme {
namespace {

using std::chrono::microseconds;

constexpr microseconds kShortestSleep{20}, kLongestSleep{250};
constexpr int kSleepShare = 8;  // fraction of the time waited so far: 1/8
constexpr int kLooks = 8;       // polls per sleep: Open MPI 4.1 handles some events only in each eighth call

}  // namespace

bool mpi_is_running() noexcept {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

MpiType::MpiType(MPI_Datatype base, int count, std::int64_t stride) {
  MPI_Aint lower_bound = 0;
  MPI_Aint elem_bytes = 0;
  MPI_Type_get_extent(base, &lower_bound, &elem_bytes);
  MPI_Datatype run = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(count, base, &run);
  MPI_Type_create_resized(run, 0, stride * elem_bytes, &type_);
  MPI_Type_free(&run);
  MPI_Type_commit(&type_);
}

MpiType::~MpiType() {
  if (mpi_is_running()) MPI_Type_free(&type_);
}

void MpiJob::check(int result, const std::string& call) const {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw Error(ErrorCode::kCommunication, "{} on rank {} of the job: {}", call, rank, text);
}

void MpiJob::abort(const Error& error) noexcept {
  if (aborted.exchange(true)) return;
  const Error named = error.saying(naming_rank(rank, error.what()));
  if (report) {
    report(named);
  } else {
    std::fprintf(stderr, "%s\n", shown_message(named).c_str());
    std::fflush(stderr);
  }
  if (status) status->end();
  if (phase == Phase::kRunning) MPI_Abort(MPI_COMM_WORLD, 1);
}

int MpiJob::wait(MPI_Request* request, MPI_Status* status) const {
  if (!sleeps) return MPI_Wait(request, status);
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    for (int look = 0; look < kLooks; ++look) {
      int done = 0;
      const int result = MPI_Test(request, &done, status);
      if (result != MPI_SUCCESS || done != 0) return result;
    }
    const auto waited = std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - start);
    if (waited < kShortestSleep)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::clamp(waited / kSleepShare, kShortestSleep, kLongestSleep));
  }
}

void MpiJob::set_progress(bool wanted) {
  if (!wanted) {
    progress.reset();
  } else if (!progress) {
    progress = std::make_unique<MpiProgress>();
  }
}

void MpiJob::release_abandoned() noexcept {
  std::erase_if(abandoned, [](MpiOperation& operation) {
    for (MPI_Request& request : operation.requests) {
      int done = 1;
      // A failed request is complete, too.
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) return false;
    }
    return true;
  });
}

}  // namespace trireme

// Ends an mpirun that hangs at its own end, after all processes of the job have gone.
//
// [Note: an mpirun that does not return] A rank that is killed while it connects to mpirun (a few
// milliseconds of MPI_Init) leaves a lock of mpirun's PMIx server taken: mpirun says "PMIX ERROR:
// UNREACHABLE", ends all ranks, and then waits for that lock for ever, in PMIx_server_finalize (Open MPI 4.1
// with PMIx 4.2). No rank is alive then. So each rank leaves a process behind while MPI starts, which
// outlives it: where the rank dies, and mpirun has no living process and still does not end, it tells mpirun
// to.
#pragma once

namespace trireme {

class MpirunWatch {
 public:
  /// Starts that process, beside this one. No other thread may be running but ones that wait. Does nothing
  /// where the parent is not Open MPI's mpirun or its daemon on another machine, or the system cannot tell.
  explicit MpirunWatch(int local_rank);
  MpirunWatch(const MpirunWatch&) = delete;
  MpirunWatch& operator=(const MpirunWatch&) = delete;
  /// MPI has started, or this rank leaves in good order: the process beside ends.
  ~MpirunWatch();

 private:
  int process_ = -1;
  int alive_ = -1;  // a socket: at its other end comes a byte, or the news that this process is gone
};

}  // namespace trireme

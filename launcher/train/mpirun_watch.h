// Ends an mpirun that hangs at its end, after all processes of the job are gone.
//
// [Note: an mpirun that does not return] A rank that is killed while it connects to mpirun (a few
// milliseconds of MPI_Init) leaves a lock of mpirun's PMIx server taken. mpirun prints "PMIX ERROR:
// UNREACHABLE", ends all ranks, and then waits for that lock for ever in PMIx_server_finalize (Open MPI 4.1
// with PMIx 4.2). No rank is alive then. So each rank starts a helper process while MPI starts. If the rank
// dies, and mpirun has no living child and still does not end, the helper terminates it.
// to.
#pragma once

namespace trireme {

class MpirunWatch {
 public:
  /// Starts the helper process. No other thread may be running, unless it is blocked. Does nothing if the
  /// parent is not Open MPI's mpirun or its daemon on another machine, or if the system does not show that.
  explicit MpirunWatch(int local_rank);
  MpirunWatch(const MpirunWatch&) = delete;
  MpirunWatch& operator=(const MpirunWatch&) = delete;
  /// MPI has started, or this rank exits cleanly: ends the helper.
  ~MpirunWatch();

 private:
  int process_ = -1;
  int alive_ = -1;  // a socket to the helper: it receives a byte, or end-of-file if this process dies
};

}  // namespace trireme

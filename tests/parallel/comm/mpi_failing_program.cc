// A job for mpi_failure_test that fails as its argument specifies: rank 1 fails, while the others wait for it
// in an operation that it never joins.
#include <csignal>
#include <cstdio>
#include <string>

#include "parallel/comm/mpi.h"
#include "runtime/base/error.h"
#include "tests/parallel/comm/message_channels.h"
#include "tests/parallel/comm/test_memory.h"

namespace trireme {
namespace {

void train(Communicator& comm, const std::string& failure) {
  const TestMemory memory;
  const int peer = comm.rank() == 1 ? 0 : 1;
  // When it fails, rank 1 unwinds through operations that can never end.
  open_channels_of_pairs(comm, {7});
  Work receive = comm.recv(memory.empty(100'000), peer, 7);
  const Tensor sum = memory.filled(1000, DType::kFloat32, [](auto) { return 1; });
  comm.all_reduce(sum, ReduceOp::kSum).wait();
  if (comm.rank() == 1) {
    if (failure == "kill") std::raise(SIGKILL);
    if (failure == "abort") comm.abort(Error(ErrorCode::kRuntime, "the data folder vanished"));
    throw Error(ErrorCode::kRuntime, "loss is not finite in blocks.3");
  }
  if (comm.rank() == 0) receive.wait();
  comm.barrier();
}

// The recommended way: the message reaches the user, and the job ends everywhere.
int run_reporting(const std::string& failure) {
  const MpiSession session;
  try {
    train(*session.world(), failure);
  } catch (const std::exception& error) {
    session.world()->abort(Error(ErrorCode::kRuntime, std::string(error.what())));
  }
  return 0;
}

// The exception leaves the session.
int run_careless(const std::string& failure) {
  try {
    const MpiSession session;
    train(*session.world(), failure);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "caught outside: %s\n", error.what());
  }
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const std::string failure = argc > 1 ? argv[1] : "throw";
  return failure == "careless" ? trireme::run_careless(failure) : trireme::run_reporting(failure);
}

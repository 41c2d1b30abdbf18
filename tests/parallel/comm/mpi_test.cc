#include "parallel/comm/mpi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

#include "runtime/base/error.h"
#include "tests/parallel/comm/conformance.h"
#include "tests/parallel/comm/message_channels.h"
#include "tests/parallel/comm/mpi_main.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

void knows_its_node(const MpiSession& session) {
  // The tests run on one machine.
  EXPECT_EQ(session.local_rank(), session.world()->rank());
  EXPECT_EQ(session.num_local_ranks(), session.world()->size());
  EXPECT_EQ(session.world()->hosts(), std::vector<int>(static_cast<std::size_t>(session.world()->size()), 0));
  EXPECT_THROW(MpiSession second, Error);
  EXPECT_THROW((void)session.make_communicator(0), Error);
  EXPECT_THROW((void)session.make_communicator(kMaxMpiCount + 1), Error);
}

// Open MPI's handler may wait for ever. SIGABRT, because sanitizers handle the other signals.
void has_no_handler_of_crashes() {
  struct sigaction action = {};
  ASSERT_EQ(sigaction(SIGABRT, nullptr, &action), 0);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
}

// A receive of the wrong size is an error, and the ranks can continue.
void receives_of_wrong_size(Communicator& comm) {
  if (comm.size() == 1) return;  // no peer
  const TestMemory memory;
  open_channels_of_ring(comm, {2});
  const auto value = [&](std::int64_t n) { return memory.filled(n, DType::kInt32, [](auto) { return 1; }); };
  for (const std::int64_t expected : {3, 6}) {
    std::vector<Work> works;
    if (comm.rank() == 0) works.push_back(comm.send(value(5), 1, 2));
    if (comm.rank() == 1) works.push_back(comm.recv(memory.empty(expected, DType::kInt32), 0, 2));
    comm.barrier();  // meanwhile the message arrives, and fails before the wait
    for (Work& work : works) {
      try {
        work.wait();
        EXPECT_EQ(comm.rank(), 0) << "took 5 elements for " << expected;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kCommunication);
        EXPECT_THAT(std::string(error.what()),
                    AllOf(HasSubstr(fmt::format("recv on rank 1 of {} from rank 0, tag 2", comm.size())),
                          AnyOf(HasSubstr("truncated"), HasSubstr("expected 6 elements, the peer sent 5"))));
      }
    }
  }
}

// All ranks must get the same bits, in whatever order the library sums.
void sums_agree_on_every_rank(Communicator& comm) {
  const TestMemory memory;
  for (const std::int64_t n : {1, 1000, 100'003}) {
    const Tensor sum = memory.empty(n);
    for (std::int64_t i = 0; i < n; ++i) {
      static_cast<float*>(sum.data())[i] = 1.0f / static_cast<float>(3 + i % 1001 + 7 * comm.rank());
    }
    comm.all_reduce(sum, ReduceOp::kSum).wait();
    const Tensor all = memory.empty(n * comm.size());
    comm.all_gather(sum, all).wait();
    for (int r = 0; r < comm.size(); ++r) {
      const Tensor other = all.slice(r * n, {n});
      EXPECT_EQ(std::memcmp(sum.data(), other.data(), static_cast<std::size_t>(sum.size_bytes())), 0) << n;
    }
  }
}

// Leaving a scope by an exception must not wait for peers that have not posted. The abandoned operation
// completes once they have.
void unwinding_does_not_wait(Communicator& comm) {
  if (comm.size() == 1) return;  // no peer to wait for
  const TestMemory memory;
  open_channels_of_ring(comm, {0});
  const auto value = [&] { return memory.filled(100'000, DType::kInt32, [](auto) { return 1; }); };
  if (comm.rank() == 0) {
    try {
      const Work dropped = comm.all_reduce(value(), ReduceOp::kSum);
      throw std::runtime_error("handled here");
    } catch (const std::runtime_error&) {
    }
    comm.send(memory.empty(1), 1, 0).wait();
  } else {
    if (comm.rank() == 1) comm.recv(memory.empty(1), 0, 0).wait();
    const Tensor sum = value();
    comm.all_reduce(sum, ReduceOp::kSum).wait();
    EXPECT_EQ(memory.load(sum, 99'999), comm.size());
  }
  comm.barrier();
  (void)comm.all_reduce(memory.filled(1, DType::kInt32, [](auto) { return 1; }), ReduceOp::kSum);
}

std::vector<MpiTest> all_tests(const MpiSession& session) {
  std::vector<MpiTest> tests;
  const auto add = [&](const char* suite, const std::shared_ptr<Communicator>& comm,
                       const std::vector<ConformanceCase>& cases) {
    for (const ConformanceCase& one : cases) {
      tests.push_back({suite, one.name, [run = one.run, comm] { run(*comm); }});
    }
  };
  add("MpiConformance", session.world(), conformance_cases());
  // Calls split into runs, like calls of more than 2^31 - 1 elements.
  add("MpiCutInto64", session.make_communicator(64), conformance_data_cases());
  add("MpiCutInto1000", session.make_communicator(1000), conformance_cases());
  tests.push_back({"Mpi", "KnowsItsNode", [&] { knows_its_node(session); }});
  tests.push_back({"Mpi", "HasNoHandlerOfCrashes", has_no_handler_of_crashes});
  add("Mpi", session.world(),
      {{"StartsProgressThread", [](Communicator& comm) { comm.progress_in_background(true); }}});
  add("MpiWithProgressThread", session.world(), conformance_cases());
  add("Mpi", session.world(),
      {{"SleepsWhileWaiting", [](Communicator& comm) { comm.sleep_while_waiting(true); }}});
  add("MpiThatSleepsWithProgressThread", session.world(), conformance_data_cases());
  add("Mpi", session.world(),
      {{"EndsProgressThread", [](Communicator& comm) { comm.progress_in_background(false); }}});
  add("MpiThatSleeps", session.world(), conformance_cases());
  add("MpiThatSleeps", session.world(), {{"ReceivesOfWrongSize", receives_of_wrong_size}});
  add("Mpi", session.world(),
      {{"SpinsWhileWaiting", [](Communicator& comm) { comm.sleep_while_waiting(false); }},
       {"ReceivesOfWrongSize", receives_of_wrong_size},
       {"SumsAgreeOnEveryRank", sums_agree_on_every_rank},
       {"UnwindingDoesNotWait", unwinding_does_not_wait}});
  return tests;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const trireme::MpiSession session;
  return trireme::run_mpi_tests(argc, argv, session, trireme::all_tests(session));
}

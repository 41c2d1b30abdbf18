// The NCCL communicator without a GPU: the conformance suite over emulated NCCL, messages that wait for each
// other, and failures of NCCL on one rank, which end every rank with that rank's message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "parallel/comm/local.h"
#include "parallel/comm/nccl.h"
#include "runtime/base/error.h"
#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/parallel/comm/conformance.h"
#include "tests/parallel/comm/nccl_emulation/nccl_emulation.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kMostRanks = 4;

template <class Action>
class Finally {
 public:
  explicit Finally(Action action) : action_(std::move(action)) {}
  ~Finally() { action_(); }
  Finally(const Finally&) = delete;
  Finally& operator=(const Finally&) = delete;

 private:
  Action action_;
};

// One rank per card, as in a job; `host` takes the place of MPI.
std::shared_ptr<Communicator> emulated_nccl(const std::shared_ptr<Communicator>& host,
                                            std::chrono::seconds timeout = std::chrono::minutes(10)) {
  return make_nccl_communicator(host, {DeviceType::kCuda, host->rank()}, timeout);
}

class Nccl : public ::testing::Test {
 protected:
  Nccl() {
    emulation::set_device_count(kMostRanks);
    test_memory_kind() = {.device = DeviceType::kCuda, .make_source = []() -> std::unique_ptr<MemorySource> {
                            return std::make_unique<TestMemorySource>();
                          }};
  }
  ~Nccl() override {
    nccl_emulation::fail_operations_of(-1);
    nccl_emulation::fail_setup_of(-1);
    nccl_emulation::never_set_up(false);
    EXPECT_EQ(nccl_emulation::misuses(), 0);
    emulation::set_events_pending(false);
    emulation::set_device_count(1);
    test_memory_kind() = {};
  }

  // The error that each of two ranks threw in `rank_main`, and the error that ended the job.
  struct Outcome {
    std::array<std::string, 2> messages;
    std::string first;
  };
  static Outcome failures(
      const std::function<void(const std::shared_ptr<Communicator>&, int rank)>& rank_main) {
    Outcome outcome;
    try {
      run_local_ranks(2, [&](const std::shared_ptr<Communicator>& host) {
        try {
          rank_main(host, host->rank());
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kCommunication);
          outcome.messages[static_cast<std::size_t>(host->rank())] = error.what();
          throw;
        }
      });
    } catch (const Error& error) {
      outcome.first = error.what();
    }
    return outcome;
  }
};

struct NcclConformance : Nccl, ::testing::WithParamInterface<std::tuple<int, ConformanceCase>> {};

TEST_P(NcclConformance, Holds) {
  const auto& [size, one_case] = GetParam();
  run_local_ranks(size, [run = one_case.run](const std::shared_ptr<Communicator>& host) {
    const auto comm = emulated_nccl(host);
    run(*comm);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclConformance,
                         ::testing::Combine(::testing::Values(1, 2, 3, kMostRanks),
                                            ::testing::ValuesIn(conformance_cases())),
                         [](const auto& info) {
                           return fmt::format("{}On{}", std::get<1>(info.param).name,
                                              std::get<0>(info.param));
                         });

TEST_F(Nccl, AnErrorOfOneRankEndsAllWithItsMessage) {
  const Outcome outcome = failures([](const std::shared_ptr<Communicator>& host, int rank) {
    const auto comm = emulated_nccl(host);
    const TestMemory memory;
    comm->all_reduce(memory.filled(4, DType::kFloat32, [](auto) { return 1; }), ReduceOp::kSum).wait();
    comm->barrier();
    if (rank == 1) nccl_emulation::fail_operations_of(1);
    for (;;) comm->barrier();  // like a computing rank, which sees the failure in its next call
  });
  EXPECT_THAT(outcome.first, HasSubstr("rank 1: NCCL reports remote process exited"));
  for (const std::string& message : outcome.messages)
    EXPECT_THAT(message, HasSubstr("NCCL reports remote process exited"));
}

TEST_F(Nccl, AnOperationThatDoesNotEndIsNamed) {
  const Outcome outcome = failures([](const std::shared_ptr<Communicator>& host, int rank) {
    const auto comm = emulated_nccl(host, std::chrono::seconds(rank == 1 ? 1 : 600));
    const TestMemory memory;
    if (rank == 1) emulation::set_events_pending(true);
    comm->barrier();
    comm->all_reduce(memory.filled(4, DType::kFloat32, [](auto) { return 1; }), ReduceOp::kSum).wait();
    for (;;) comm->barrier();
  });
  EXPECT_THAT(
      outcome.first,
      HasSubstr(
          "rank 1: all_reduce of fp32 [4] on rank 1 of 2 has not ended within 1 s: a rank may have died"));
  for (const std::string& message : outcome.messages)
    EXPECT_THAT(message, HasSubstr("on rank 1 of 2 has not ended"));
}

TEST_F(Nccl, ARankThatCannotSetUpEndsAll) {
  nccl_emulation::fail_setup_of(1);
  const Outcome outcome = failures([](const std::shared_ptr<Communicator>& host, int) {
    const auto comm = emulated_nccl(host);
    for (;;) comm->barrier();
  });
  EXPECT_THAT(outcome.first,
              AllOf(HasSubstr("rank 1: setting up NCCL on rank 1 of 2 failed: unhandled system error"),
                    HasSubstr("NCCL_DEBUG=WARN shows more")));
  EXPECT_THAT(outcome.messages[0], HasSubstr("rank 1 failed: setting up NCCL on rank 1 of 2 failed"));
}

TEST_F(Nccl, ASetUpThatDoesNotEndIsNamed) {
  nccl_emulation::never_set_up(true);
  const Outcome outcome = failures([](const std::shared_ptr<Communicator>& host, int) {
    (void)emulated_nccl(host, std::chrono::seconds(0));
  });
  for (const std::string& message : outcome.messages) {
    EXPECT_THAT(message,
                ::testing::MatchesRegex("setting up NCCL on rank [01] of 2 has not ended within 0 s: a rank "
                                        "may have died or be stuck"));
  }
}

// Tests [Note: owner of an ncclComm_t]: rank 0 is inside a call whose peer never comes when its watchdog ends
// the job.
TEST_F(Nccl, ACallThatConnectsEndsWithTheJob) {
  for (int round = 0; round < 5; ++round) {
    const Outcome outcome = failures([](const std::shared_ptr<Communicator>& host, int rank) {
      const auto comm = emulated_nccl(host);
      const TestMemory memory;
      comm->barrier();
      if (rank == 0) {
        std::thread watchdog([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          comm->abort(Error(ErrorCode::kCommunication, "the watchdog has seen enough"));
        });
        const Finally join([&] { watchdog.join(); });
        comm->all_reduce(memory.filled(4, DType::kFloat32, [](auto) { return 1; }), ReduceOp::kSum).wait();
      }
      for (;;) comm->barrier();
    });
    EXPECT_THAT(outcome.first, HasSubstr("rank 0: the watchdog has seen enough"));
    EXPECT_EQ(outcome.messages[0], "the watchdog has seen enough");
  }
}

}  // namespace
}  // namespace trireme

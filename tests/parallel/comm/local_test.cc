#include "parallel/comm/local.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "parallel/comm/message_sums.h"
#include "runtime/base/error.h"
#include "tests/parallel/comm/conformance.h"
#include "tests/parallel/comm/message_channels.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Ranks = std::shared_ptr<Communicator>;

class LocalConformance : public ::testing::TestWithParam<std::tuple<int, ConformanceCase>> {};

TEST_P(LocalConformance, Holds) {
  const auto& [size, one_case] = GetParam();
  const auto run = one_case.run;
  run_local_ranks(size, [&](const Ranks& comm) { run(*comm); });
}

class SummingConformance : public ::testing::TestWithParam<std::tuple<int, ConformanceCase>> {};

// The wrapping communicator keeps the contract, and its message sums add up to zero.
TEST_P(SummingConformance, Holds) {
  const auto& [size, one_case] = GetParam();
  const auto run = one_case.run;
  run_local_ranks(size, [&](const Ranks& comm) {
    const Ranks summing = with_message_sums(comm, 1);
    run(*summing);
    const auto left = comm->all_gather_value(message_sums(*summing)->difference());
    EXPECT_EQ(std::reduce(left.begin(), left.end()), 0U);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SummingConformance,
                         ::testing::Combine(::testing::Values(1, 2, 3),
                                            ::testing::ValuesIn(conformance_cases())),
                         [](const auto& info) {
                           return fmt::format("{}On{}", std::get<1>(info.param).name,
                                              std::get<0>(info.param));
                         });

INSTANTIATE_TEST_SUITE_P(Ranks, LocalConformance,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 8),
                                            ::testing::ValuesIn(conformance_cases())),
                         [](const auto& info) {
                           return fmt::format("{}On{}", std::get<1>(info.param).name,
                                              std::get<0>(info.param));
                         });

// Runs `rank_main` and returns the error of run_local_ranks.
Error failure_of(int size, const std::function<void(Ranks)>& rank_main) {
  try {
    run_local_ranks(size, rank_main);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "the ranks did not fail";
  return Error(ErrorCode::kRuntime, "none");
}

// Counts the calls that threw kCommunication with a message that contains `text`.
struct Failures {
  std::atomic<int> count = 0;
  template <class F>
  void expect(F call, const std::string& text) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCommunication);
      EXPECT_THAT(std::string(error.what()), HasSubstr(text));
      ++count;
    }
  }
};

TEST(Local, SumsInRankOrder) {
  run_local_ranks(4, [](const Ranks& comm) {
    const float values[] = {1e8f, 3.0f, -1e8f, 0.1f};
    const float in_order = ((values[0] + values[1]) + values[2]) + values[3];
    const TestMemory memory;
    const Tensor reduced = memory.empty(1);
    *static_cast<float*>(reduced.data()) = values[comm->rank()];
    comm->all_reduce(reduced, ReduceOp::kSum).wait();
    EXPECT_EQ(*static_cast<float*>(reduced.data()), in_order);

    const Tensor in = memory.empty(4);
    for (int i = 0; i < 4; ++i) static_cast<float*>(in.data())[i] = values[comm->rank()];
    const Tensor piece = memory.empty(1);
    comm->reduce_scatter(in, piece, ReduceOp::kSum).wait();
    EXPECT_EQ(*static_cast<float*>(piece.data()), in_order);
  });
}

TEST(Local, IntegerSumsWrapAround) {
  run_local_ranks(2, [](const Ranks& comm) {
    const TestMemory memory;
    const Tensor sum = memory.filled(1, DType::kInt32, [](auto) { return 0x7fffffff; });
    comm->all_reduce(sum, ReduceOp::kSum).wait();
    EXPECT_EQ(memory.load(sum, 0), -2);
  });
}

TEST(Local, BarrierWaitsForEveryRank) {
  std::atomic<int> arrived = 0;
  run_local_ranks(4, [&](const Ranks& comm) {
    for (int round = 1; round <= 50; ++round) {
      if (comm->rank() == round % 4) std::this_thread::sleep_for(std::chrono::microseconds(200));
      ++arrived;
      comm->barrier();
      EXPECT_GE(arrived.load(), 4 * round);
      comm->barrier();
    }
  });
}

TEST(Local, CommunicatorOutlivesItsWorld) {
  std::shared_ptr<Communicator> comm = LocalWorld(1).communicator(0);
  const TestMemory memory;
  const Tensor value = memory.filled(1, DType::kInt32, [](auto) { return 5; });
  comm->all_reduce(value, ReduceOp::kSum).wait();
  EXPECT_EQ(memory.load(value, 0), 5);
}

TEST(Local, RefusesBadWorlds) {
  EXPECT_THROW(LocalWorld(0), Error);
  EXPECT_THROW((void)LocalWorld(2).communicator(2), Error);
  EXPECT_THROW((void)LocalWorld(2).communicator(-1), Error);
}

// Rank 2 throws; the others wait in different calls and call again.
TEST(LocalFailure, ThrowingRankEndsAll) {
  Failures failures;
  const Error error = failure_of(4, [&](const Ranks& comm) {
    const TestMemory memory;
    open_channels_of_pairs(*comm, {0});
    Work pending = comm->all_reduce(memory.empty(3), ReduceOp::kSum);
    if (comm->rank() == 2) {
      pending.wait();  // now all ranks have posted it
      throw Error(ErrorCode::kOutOfMemory, "no room for blocks.7");
    }
    const std::string culprit = "rank 2 failed: no room for blocks.7";
    failures.expect([&] { comm->barrier(); }, culprit);
    failures.expect([&] { comm->recv(memory.empty(1), 2, 0).wait(); }, culprit);
    failures.expect([&] { comm->send(memory.empty(1), 2, 0).wait(); }, culprit);
    failures.expect([&] { (void)comm->all_gather_strings("x"); }, culprit);
    failures.expect([&] { (void)comm->all_gather_value(1); }, culprit);
    failures.expect([&] { (void)comm->split(0); }, culprit);
    pending.wait();  // completed before the failure
    throw Error(ErrorCode::kRuntime, "a later failure");
  });
  EXPECT_EQ(failures.count, 3 * 6);
  EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  EXPECT_STREQ(error.what(), "rank 2: no room for blocks.7");
  EXPECT_THAT(error.where().file_name(), HasSubstr("local_test.cc"));
}

TEST(LocalFailure, EveryExceptionIsReported) {
  EXPECT_STREQ(failure_of(1, [](const Ranks&) { throw std::runtime_error("plain"); }).what(),
               "rank 0: plain");
  EXPECT_STREQ(failure_of(1, [](const Ranks&) { throw 7; }).what(), "rank 0: an exception of unknown type");
}

TEST(LocalFailure, AbortEndsAllWithItsMessage) {
  Failures failures;
  const Error error = failure_of(3, [&](const Ranks& comm) {
    if (comm->rank() == 1) {
      comm->abort(Error(ErrorCode::kRuntime, "disk full"));
      comm->abort(Error(ErrorCode::kRuntime, "second message"));
    }
    failures.expect([&] { comm->barrier(); }, "rank 1 failed: disk full");
  });
  EXPECT_EQ(failures.count, 3);
  EXPECT_STREQ(error.what(), "rank 1: disk full");
}

// Rank 0 unwinds through a receive that rank 1 never matches, and must not wait for it.
TEST(LocalFailure, UnwindingDoesNotWait) {
  const Error error = failure_of(2, [](const Ranks& comm) {
    const TestMemory memory;
    open_channels_of_pairs(*comm, {0});
    Work receive = comm->recv(memory.empty(4), 1 - comm->rank(), 0);
    if (comm->rank() == 0) throw Error(ErrorCode::kRuntime, "the culprit");
    receive.wait();
  });
  EXPECT_STREQ(error.what(), "rank 0: the culprit");
}

TEST(LocalFailure, UnwindingLeavesTheOperationToItsPeers) {
  run_local_ranks(2, [](const Ranks& comm) {
    const TestMemory memory;
    const auto value = [&] { return memory.filled(1000, DType::kInt32, [](auto) { return 1; }); };
    if (comm->rank() == 0) {
      try {
        const Work dropped = comm->all_reduce(value(), ReduceOp::kSum);
        throw std::runtime_error("handled here");
      } catch (const std::runtime_error&) {
      }
      comm->barrier();
    } else {
      const Tensor sum = value();
      comm->all_reduce(sum, ReduceOp::kSum).wait();
      EXPECT_EQ(memory.load(sum, 999), 2);
      comm->barrier();
    }
    EXPECT_EQ(memory.live_bytes(), 0) << "rank " << comm->rank();
  });
}

TEST(LocalFailure, NamesBothCallsThatDisagree) {
  const Error error = failure_of(2, [](const Ranks& comm) {
    const TestMemory memory;
    comm->barrier();
    if (comm->rank() == 0) {
      comm->all_reduce(memory.empty(6), ReduceOp::kSum).wait();
    } else {
      comm->all_gather(memory.empty(3), memory.empty(6)).wait();
    }
  });
  EXPECT_EQ(error.code(), ErrorCode::kCommunication);
  EXPECT_THAT(std::string(error.what()), AllOf(HasSubstr("collective 1 of group [0, 1]"),
                                               HasSubstr("rank 0 called all_reduce(sum of fp32, 6 elements)"),
                                               HasSubstr("rank 1 called all_gather(fp32, 3 -> 6 elements)")));
}

// Each pair differs in one property only.
TEST(LocalFailure, SeesEveryDifference) {
  using Call = std::function<void(Communicator&, const TestMemory&)>;
  const auto reduce = [](std::int64_t n, DType dtype, ReduceOp op) -> Call {
    return [=](Communicator& comm, const TestMemory& memory) {
      comm.all_reduce(memory.empty(n, dtype), op).wait();
    };
  };
  const auto broadcast = [](int root) -> Call {
    return
        [=](Communicator& comm, const TestMemory& memory) { comm.broadcast(memory.empty(2), root).wait(); };
  };
  const Call barrier = [](Communicator& comm, const TestMemory&) { comm.barrier(); };
  const Call strings = [](Communicator& comm, const TestMemory&) { (void)comm.all_gather_strings("a"); };
  const auto values = [](std::size_t n) -> Call {
    return [=](Communicator& comm, const TestMemory&) {
      (void)comm.all_gather_values(std::span<const int>(std::vector<int>(n)));
    };
  };
  const Call split = [](Communicator& comm, const TestMemory&) { (void)comm.split(0); };
  const Call send = [](Communicator& comm, const TestMemory& memory) {
    comm.send(memory.empty(2), 1, 0).wait();
  };
  const auto recv = [](std::int64_t n, DType dtype) -> Call {
    return
        [=](Communicator& comm, const TestMemory& memory) { comm.recv(memory.empty(n, dtype), 0, 0).wait(); };
  };
  const auto sum = ReduceOp::kSum;
  const std::pair<Call, Call> pairs[] = {
      {reduce(4, DType::kFloat32, sum), reduce(5, DType::kFloat32, sum)},
      {reduce(4, DType::kFloat32, sum), reduce(4, DType::kInt32, sum)},
      {reduce(4, DType::kFloat32, sum), reduce(4, DType::kFloat32, ReduceOp::kMax)},
      {broadcast(0), broadcast(1)},
      {barrier, strings},
      {strings, values(1)},
      {values(1), values(2)},
      {split, barrier},
      {reduce(1, DType::kFloat32, sum), barrier},
      {send, recv(3, DType::kFloat32)},
      {send, recv(2, DType::kInt32)},
  };
  for (std::size_t p = 0; p < std::size(pairs); ++p) {
    const Error error = failure_of(2, [&](const Ranks& comm) {
      const TestMemory memory;
      open_channels_of_pairs(*comm, {0});
      (comm->rank() == 0 ? pairs[p].first : pairs[p].second)(*comm, memory);
    });
    EXPECT_EQ(error.code(), ErrorCode::kCommunication) << "pair " << p;
    EXPECT_THAT(std::string(error.what()), HasSubstr("ranks disagree about")) << "pair " << p;
  }
}

TEST(LocalFailure, FindsRanksThatWaitForEachOther) {
  const Error error = failure_of(3, [](const Ranks& comm) {
    const TestMemory memory;
    open_channels_of_pairs(*comm, {9});
    comm->recv(memory.empty(4), (comm->rank() + 1) % 3, 9).wait();
  });
  EXPECT_EQ(error.code(), ErrorCode::kCommunication);
  EXPECT_THAT(std::string(error.what()),
              AllOf(HasSubstr("deadlock"),
                    HasSubstr("rank 0 waits in recv(fp32, 4 elements) (rank 1 to rank 0, tag 9)"),
                    HasSubstr("rank 2 waits in recv(fp32, 4 elements) (rank 0 to rank 2, tag 9)")));
}

TEST(LocalFailure, FindsWaitingForFinishedRank) {
  const Error error = failure_of(3, [](const Ranks& comm) {
    if (comm->rank() != 1) comm->barrier();
  });
  EXPECT_EQ(error.code(), ErrorCode::kCommunication);
  EXPECT_THAT(std::string(error.what()),
              AllOf(HasSubstr("rank 0 waits in barrier"), HasSubstr("rank 1 has finished"),
                    HasSubstr("rank 2 waits in barrier")));
}

TEST(LocalFailure, FindsSendsThatNobodyReceives) {
  const Error error = failure_of(2, [](const Ranks& comm) {
    const TestMemory memory;
    open_channels_of_pairs(*comm, {3});
    if (comm->rank() == 0) comm->send(memory.empty(4), 1, 3).wait();
  });
  EXPECT_THAT(std::string(error.what()),
              AllOf(HasSubstr("rank 0 waits in send(fp32, 4 elements) (rank 0 to rank 1, tag 3)"),
                    HasSubstr("rank 1 has finished")));
}

// A rank of one group waits for a rank that waits in another group.
TEST(LocalFailure, FindsDeadlockAcrossGroups) {
  const Error error = failure_of(4, [](const Ranks& comm) {
    const auto rows = comm->split(comm->rank() / 2);
    const auto columns = comm->split(comm->rank() % 2);
    if (comm->rank() == 0 || comm->rank() == 3) {
      rows->barrier();
    } else {
      columns->barrier();
    }
  });
  EXPECT_THAT(std::string(error.what()),
              AllOf(HasSubstr("deadlock"), HasSubstr("collective 0 of group [0, 1]"),
                    HasSubstr("collective 0 of group [1, 3]")));
}

}  // namespace
}  // namespace trireme

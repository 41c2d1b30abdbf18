#include "parallel/comm/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/comm/local.h"
#include "runtime/base/error.h"
#include "tests/parallel/comm/conformance.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class RecordingCounts : public ::testing::TestWithParam<int> {};

// What was counted without peers is what ranks that talk to each other count.
TEST_P(RecordingCounts, EqualThoseOfLocal) {
  const int size = GetParam();
  run_local_ranks(size, [&](const std::shared_ptr<Communicator>& comm) {
    RecordingCommunicator recording(comm->rank(), size);
    run_every_call(*comm, TestMemory());
    run_every_call(recording, TestMemory(DeviceType::kMeta));
    EXPECT_GT(recording.traffic().sent_bytes, 0);
    EXPECT_EQ(recording.traffic(), comm->traffic());
    TrafficCounts sum;
    for (int kind = 0; kind < kNumCallKinds; ++kind) {
      const TrafficCounts counts = recording.traffic_of(static_cast<CallKind>(kind));
      sum.sent_bytes += counts.sent_bytes;
      sum.num_calls += counts.num_calls;
    }
    EXPECT_EQ(sum, recording.traffic());
    EXPECT_EQ(recording.calls().size(), static_cast<std::size_t>(sum.num_calls));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, RecordingCounts, ::testing::Values(2, 3, 4));

TEST(Recording, ListsCallsReadably) {
  RecordingCommunicator comm(1, 4);
  run_every_call(comm, TestMemory(DeviceType::kMeta));
  EXPECT_EQ(comm.to_string(),
            "all_reduce 28 B fp32\n"
            "all_reduce 0 B int32\n"
            "reduce_scatter 80 B fp32\n"
            "all_gather 24 B bf16\n"
            "all_gather 64 B fp32\n"
            "all_to_all 32 B fp32\n"
            "broadcast 9 B uint8 from 3\n"
            "send 40 B fp32 to 2, tag 3\n"
            "recv 40 B fp32 from 0, tag 3\n"
            "barrier\n"
            "all_gather_strings\n");
  EXPECT_EQ(comm.traffic_of(CallKind::kAllReduce).num_calls, 2);
  EXPECT_EQ(comm.traffic_of(CallKind::kAllReduce).sent_bytes, 2 * 28 * 3 / 4);
  EXPECT_EQ(comm.calls()[2].sent_bytes, 60);
}

// As on communicators with peers, so that both have the same peak memory.
TEST(Recording, WorkHoldsItsTensors) {
  RecordingCommunicator comm(0, 2);
  const TestMemory memory(DeviceType::kMeta);
  Work work = comm.all_gather(memory.empty(16), memory.empty(32));
  EXPECT_EQ(memory.live_bytes(), 3 * 64);
  work.wait();
  EXPECT_EQ(memory.live_bytes(), 0);
}

TEST(Recording, ComputesNothing) {
  RecordingCommunicator comm(0, 2);
  const TestMemory memory(DeviceType::kMeta);
  const Tensor value = memory.filled(4, DType::kInt32, [](auto) { return 3; });
  comm.all_reduce(value, ReduceOp::kSum).wait();
  EXPECT_EQ(memory.values(value), std::vector<std::int64_t>(4, 3));
  EXPECT_EQ(comm.all_gather_strings("me"), std::vector<std::string>(2, "me"));
}

TEST(Recording, ChecksItsArguments) {
  EXPECT_THROW(RecordingCommunicator(4, 4), Error);
  RecordingCommunicator comm(0, 2);
  const TestMemory memory(DeviceType::kMeta);
  try {
    (void)comm.all_reduce(TestMemory().empty(4), ReduceOp::kSum);
    FAIL() << "took a tensor with memory";
  } catch (const Error& error) {
    EXPECT_THAT(std::string(error.what()),
                HasSubstr("all_reduce on rank 0 of 2: inout fp32 [4] lives on cpu"));
  }
  EXPECT_THROW((void)comm.all_gather(memory.empty(2), memory.empty(5)), Error);
  EXPECT_THROW((void)comm.send(memory.empty(2), 0, 0), Error);
  EXPECT_TRUE(comm.calls().empty());
}

TEST(Recording, SplitsAsAnnounced) {
  RecordingCommunicator comm(3, 5);
  EXPECT_THROW((void)comm.split(0), Error);
  EXPECT_THROW(comm.expect_split({0, 1}), Error);
  comm.expect_split({0, 1, 0, 1, 1});
  comm.expect_split({2, 2, 2, 2, 2});
  const auto group = comm.split(1);
  EXPECT_EQ(group->rank(), 1);
  EXPECT_EQ(group->size(), 3);
  EXPECT_THROW((void)comm.split(0), Error);
  EXPECT_EQ(RecordingCommunicator(0, 1).split(9)->size(), 1);
}

}  // namespace
}  // namespace trireme

#include "parallel/comm/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/parallel/comm/conformance.h"
#include "tests/support/recorded_calls.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

// Ranks run one after the other, without peers.
class RecordingConformance : public ::testing::TestWithParam<std::tuple<int, ConformanceCase>> {
 protected:
  RecordingConformance() { test_memory_kind() = {.device = DeviceType::kMeta}; }
  ~RecordingConformance() override { test_memory_kind() = {}; }
};

TEST_P(RecordingConformance, Holds) {
  const auto& [size, one_case] = GetParam();
  for (int rank = 0; rank < size; ++rank) {
    RecordingCommunicator comm(rank, size);
    comm.expect_split(std::vector<int>(static_cast<std::size_t>(size), 0));  // for the case Traffic
    one_case.run(comm);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, RecordingConformance,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::ValuesIn(conformance_cases_without_peers())),
                         [](const auto& info) {
                           return fmt::format("{}On{}", std::get<1>(info.param).name,
                                              std::get<0>(info.param));
                         });

TEST(Recording, CountsByKind) {
  RecordingCommunicator recording(1, 3);
  run_every_call(recording, TestMemory(DeviceType::kMeta));
  TrafficCounts sum;
  for (int kind = 0; kind < kNumCallKinds; ++kind) {
    const TrafficCounts counts = testing::traffic_of(recording, static_cast<CallKind>(kind));
    sum.sent_bytes += counts.sent_bytes;
    sum.num_calls += counts.num_calls;
  }
  EXPECT_EQ(sum, recording.traffic());
  EXPECT_EQ(recording.calls().size(), static_cast<std::size_t>(sum.num_calls));
}

TEST(Recording, ListsCallsReadably) {
  RecordingCommunicator comm(1, 4);
  run_every_call(comm, TestMemory(DeviceType::kMeta));
  EXPECT_EQ(testing::to_string(comm),
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
            "all_gather_strings\n"
            "all_gather_values 32 B\n");
  EXPECT_EQ(testing::traffic_of(comm, CallKind::kAllReduce).num_calls, 2);
  EXPECT_EQ(testing::traffic_of(comm, CallKind::kAllReduce).sent_bytes, 2 * 28 * 3 / 4);
  EXPECT_EQ(comm.calls()[2].sent_bytes, 60);
}

TEST(Recording, ComputesNothing) {
  RecordingCommunicator comm(0, 2);
  const TestMemory memory(DeviceType::kMeta);
  const Tensor value = memory.filled(4, DType::kInt32, [](auto) { return 3; });
  comm.all_reduce(value, ReduceOp::kSum).wait();
  EXPECT_EQ(memory.values(value), std::vector<std::int64_t>(4, 3));
  EXPECT_EQ(comm.all_gather_strings("me"), std::vector<std::string>(2, "me"));
  EXPECT_EQ(comm.all_gather_value(5), std::vector<int>(2, 5));
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

// The part of the contract that does not depend on received data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "parallel/comm/recording.h"
#include "runtime/base/error.h"
#include "tests/parallel/comm/conformance.h"
#include "tests/parallel/comm/message_channels.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Tensor constant(const TestMemory& memory, std::int64_t n, std::int64_t value) {
  return memory.filled(n, DType::kInt32, [&](std::int64_t) { return value; });
}

// The caller may drop its tensors at once; they live exactly until wait().
void work_holds_its_tensors(Communicator& comm) {
  const TestMemory memory;
  const std::int64_t n = 64 * comm.size();  // whole allocation units
  std::vector<Work> works;
  works.push_back(comm.all_reduce(constant(memory, n, 1), ReduceOp::kSum));
  works.push_back(comm.all_gather(constant(memory, 64, 1), memory.empty(n, DType::kInt32)));
  EXPECT_EQ(memory.live_bytes(), 2 * n * 4 + 64 * 4);
  works[1].wait();
  EXPECT_EQ(memory.live_bytes(), n * 4);
  works[0].wait();
  EXPECT_EQ(memory.live_bytes(), 0);
  comm.barrier();
}

// Spells out the formulas of TrafficCounts.
void traffic(Communicator& comm) {
  const TestMemory memory;
  const std::int64_t size = comm.size();
  comm.reset_traffic();
  std::int64_t bytes = 0;
  std::int64_t calls = 0;
  const auto expect_one_more = [&](std::int64_t sent_bytes) {
    bytes += sent_bytes;
    EXPECT_EQ(comm.traffic().sent_bytes, bytes);
    EXPECT_EQ(comm.traffic().num_calls, ++calls);
  };
  comm.all_reduce(memory.filled(7, DType::kFloat32, [](auto) { return 1; }), ReduceOp::kSum).wait();
  expect_one_more(2 * (size - 1) * 28 / size);
  comm.reduce_scatter(constant(memory, 5 * size, 1), memory.empty(5, DType::kInt32), ReduceOp::kMax).wait();
  expect_one_more((size - 1) * 20);
  comm.all_gather(memory.empty(3, DType::kBFloat16), memory.empty(3 * size, DType::kBFloat16)).wait();
  expect_one_more((size - 1) * 6);
  comm.all_to_all(constant(memory, 2 * size, 1), memory.empty(2 * size, DType::kInt32)).wait();
  expect_one_more((size - 1) * 8);
  comm.broadcast(constant(memory, 9, 1), 0).wait();
  expect_one_more((size - 1) * 36 / size);
  if (size > 1) {
    open_channels_of_pairs(comm, {5});
    Work send = comm.send(constant(memory, 10, 1), static_cast<int>((comm.rank() + 1) % size), 5);
    expect_one_more(40);
    comm.recv(memory.empty(10, DType::kInt32), static_cast<int>((comm.rank() + size - 1) % size), 5).wait();
    expect_one_more(0);
    send.wait();
  }
  comm.barrier();
  expect_one_more(0);
  (void)comm.all_gather_strings("text");
  expect_one_more(0);
  (void)comm.all_gather_value(std::int64_t{1});
  expect_one_more((size - 1) * 8);
  const auto group = comm.split(0);
  EXPECT_EQ(group->traffic(), TrafficCounts{});
  EXPECT_EQ(comm.traffic().num_calls, calls);
  comm.reset_traffic();
  EXPECT_EQ(comm.traffic(), TrafficCounts{});
}

// Plans predict their traffic with these counts.
void counts_as_recording_does(Communicator& comm) {
  if (comm.size() == 1) return;  // run_every_call sends messages
  RecordingCommunicator recording(comm.rank(), comm.size());
  comm.reset_traffic();
  run_every_call(comm, TestMemory());
  run_every_call(recording, TestMemory(DeviceType::kMeta));
  EXPECT_GT(comm.traffic().sent_bytes, 0);
  EXPECT_EQ(recording.traffic(), comm.traffic());
}

void expect_refused(const std::function<Work()>& call, ErrorCode code,
                    const ::testing::Matcher<std::string>& message) {
  try {
    call().wait();
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(std::string(error.what()), message);
  }
}

void refused_collectives(Communicator& comm, const TestMemory& memory) {
  const std::int64_t n = comm.size();
  const std::string here = fmt::format("on rank {} of {}", comm.rank(), n);
  const auto bad = ErrorCode::kInvalidInput;
  const Tensor in = memory.empty(3 * n + 1);
  const Tensor out = memory.empty(3);
  expect_refused(
      [&] { return comm.reduce_scatter(in, out, ReduceOp::kSum); }, bad,
      AllOf(HasSubstr("reduce_scatter " + here), HasSubstr(in.shape().to_string()), HasSubstr("[3]")));
  expect_refused([&] { return comm.all_gather(out, in); }, bad,
                 AllOf(HasSubstr("all_gather " + here), HasSubstr(in.shape().to_string()), HasSubstr("[3]")));
  expect_refused([&] { return comm.all_to_all(in, memory.empty(3 * n)); }, bad,
                 AllOf(HasSubstr("all_to_all " + here), HasSubstr(in.shape().to_string())));
  if (n > 1) {
    expect_refused([&] { return comm.all_to_all(in, memory.empty(3 * n + 1)); }, bad,
                   HasSubstr("equal pieces"));
  }
  expect_refused([&] { return comm.all_gather(memory.empty(2), memory.empty(2 * n, DType::kInt32)); }, bad,
                 AllOf(HasSubstr("all_gather " + here), HasSubstr("fp32 [2]"), HasSubstr("int32")));
  expect_refused([&] { return comm.all_reduce(Tensor(), ReduceOp::kSum); }, bad,
                 HasSubstr("all_reduce " + here + ": inout is an undefined tensor"));
  expect_refused([&] { return comm.broadcast(out, static_cast<int>(n)); }, bad,
                 AllOf(HasSubstr("broadcast " + here), HasSubstr(fmt::format("root {}", n))));
  expect_refused([&] { return comm.broadcast(out, -1); }, bad, HasSubstr("root -1"));
  const Tensor shared = memory.empty(4 * n);
  expect_refused([&] { return comm.all_to_all(shared, shared); }, bad, HasSubstr("share memory"));
  expect_refused([&] { return comm.reduce_scatter(shared, shared.slice(0, {4}), ReduceOp::kSum); }, bad,
                 HasSubstr("share memory"));
  if (n > 1) {
    const std::int64_t wrong_piece = (comm.rank() + 1) % n;
    expect_refused([&] { return comm.all_gather(shared.slice(4 * wrong_piece, {4}), shared); }, bad,
                   HasSubstr("not its piece"));
  }
  const DeviceType other = comm.device_type() == DeviceType::kMeta ? DeviceType::kCpu : DeviceType::kMeta;
  const Tensor elsewhere = TestMemory(other).empty(3);
  expect_refused([&] { return comm.all_reduce(elsewhere, ReduceOp::kSum); }, bad,
                 AllOf(HasSubstr(fmt::format("lives on {}", name(other))),
                       HasSubstr(std::string(name(comm.device_type())))));
  EXPECT_THROW((void)comm.split(-1), Error);
}

void refused_messages(Communicator& comm, const TestMemory& memory) {
  const auto bad = ErrorCode::kInvalidInput;
  const Tensor tensor = memory.empty(3);
  const std::string here = fmt::format("on rank {} of {}", comm.rank(), comm.size());
  expect_refused(
      [&] { return comm.send(tensor, comm.rank(), 0); }, bad,
      AllOf(HasSubstr("send " + here), HasSubstr(fmt::format("peer {}", comm.rank())), HasSubstr("[3]")));
  expect_refused([&] { return comm.recv(tensor, comm.size(), 0); }, bad,
                 AllOf(HasSubstr("recv " + here), HasSubstr(fmt::format("peer {}", comm.size()))));
  expect_refused([&] { return comm.recv(tensor, -1, 0); }, bad, HasSubstr("peer -1"));
  if (comm.size() > 1) {
    const int peer = (comm.rank() + 1) % comm.size();
    expect_refused([&] { return comm.send(tensor, peer, -1); }, bad, HasSubstr("tag -1"));
    expect_refused([&] { return comm.send(tensor, peer, 32768); }, bad, HasSubstr("tag 32768"));
    const auto not_open = [](int source, int destination) {
      return HasSubstr(
          fmt::format("the channel from rank {} to rank {} with tag 77 is not open", source, destination));
    };
    expect_refused([&] { return comm.send(tensor, peer, 77); }, bad, not_open(comm.rank(), peer));
    expect_refused([&] { return comm.recv(tensor, peer, 77); }, bad, not_open(peer, comm.rank()));
  }
  for (const MessageChannel& channel :
       {MessageChannel{0, comm.size(), 0}, {0, 0, 0}, {0, comm.size() - 1, -1}}) {
    EXPECT_THROW(comm.open_channels({channel}), Error);
  }
}

// Rejected before anything is sent: nothing is counted, and the communicator stays usable.
void bad_arguments(Communicator& comm) {
  const TestMemory memory;
  comm.reset_traffic();
  refused_collectives(comm, memory);
  refused_messages(comm, memory);
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const auto message = AllOf(HasSubstr(std::string(name(dtype))), HasSubstr("reduce"));
    expect_refused([&] { return comm.all_reduce(memory.empty(3, dtype), ReduceOp::kSum); },
                   ErrorCode::kUnsupported, message);
    expect_refused(
        [&] {
          return comm.reduce_scatter(memory.empty(comm.size(), dtype), memory.empty(1, dtype),
                                     ReduceOp::kMax);
        },
        ErrorCode::kUnsupported, message);
  }
  EXPECT_EQ(comm.traffic(), TrafficCounts{});
  const Tensor sum = constant(memory, 1, comm.rank());
  comm.all_reduce(sum, ReduceOp::kSum).wait();
  if (comm.kind() == "recording") return;  // no peers
  EXPECT_EQ(memory.load(sum, 0), comm.size() * (comm.size() - 1) / 2);
}

}  // namespace

std::vector<ConformanceCase> conformance_cases_without_peers() {
  return {{"WorkHoldsItsTensors", work_holds_its_tensors},
          {"Traffic", traffic},
          {"CountsAsRecordingDoes", counts_as_recording_does},
          {"BadArguments", bad_arguments}};
}

void run_every_call(Communicator& comm, const TestMemory& memory) {
  const int size = comm.size();
  comm.all_reduce(memory.empty(7), ReduceOp::kSum).wait();
  comm.all_reduce(memory.empty(0, DType::kInt32), ReduceOp::kMax).wait();
  comm.reduce_scatter(memory.empty(5 * size), memory.empty(5), ReduceOp::kSum).wait();
  comm.all_gather(memory.empty(3, DType::kBFloat16), memory.empty(3 * size, DType::kBFloat16)).wait();
  const Tensor gathered = memory.empty(4 * size);
  comm.all_gather(gathered.slice(4 * comm.rank(), {4}), gathered).wait();
  comm.all_to_all(memory.empty(2 * size), memory.empty(2 * size)).wait();
  comm.broadcast(memory.empty(9, DType::kUInt8), size - 1).wait();
  open_channels_of_ring(comm, {3});
  Work send = comm.send(memory.empty(10), (comm.rank() + 1) % size, 3);
  comm.recv(memory.empty(10), (comm.rank() + size - 1) % size, 3).wait();
  send.wait();
  comm.barrier();
  (void)comm.all_gather_strings("text");
  (void)comm.all_gather_value(std::int64_t{1});
}

}  // namespace trireme

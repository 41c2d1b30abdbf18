#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "runtime/base/error.h"
#include "tests/parallel/comm/conformance.h"
#include "tests/parallel/comm/message_ways.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Tensor constant(const TestMemory& memory, std::int64_t n, std::int64_t value) {
  return memory.filled(n, DType::kInt32, [&](std::int64_t) { return value; });
}

// Sum over ranks of rank + bias.
std::int64_t rank_sum(const Communicator& comm, std::int64_t bias) {
  return std::int64_t{comm.size()} * (comm.size() - 1) / 2 + comm.size() * bias;
}

// Even ranks wait in the order of the calls, odd ranks in reverse.
void several_in_flight(Communicator& comm) {
  const TestMemory memory;
  constexpr int kNumCalls = 24;
  std::vector<Tensor> tensors;
  std::vector<Work> works;
  for (int k = 0; k < kNumCalls; ++k) {
    tensors.push_back(constant(memory, 11 * k, comm.rank() + k));
    works.push_back(k % 3 == 2 ? comm.broadcast(tensors.back(), k % comm.size())
                               : comm.all_reduce(tensors.back(), ReduceOp::kSum));
  }
  if (comm.rank() % 2 == 1) std::reverse(works.begin(), works.end());
  for (Work& work : works) work.wait();
  for (int k = 0; k < kNumCalls; ++k) {
    const std::int64_t value = k % 3 == 2 ? k % comm.size() + k : rank_sum(comm, k);
    const Tensor& tensor = tensors[static_cast<std::size_t>(k)];
    EXPECT_EQ(memory.values(tensor), memory.values(constant(memory, 11 * k, value))) << "call " << k;
  }
}

// Messages and collectives do not hold each other up, whatever is waited for first.
void messages_across_collectives(Communicator& comm) {
  if (comm.size() == 1) return;  // no peer to talk to
  const TestMemory memory;
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  open_ways_of_pairs(comm, {5});
  const Tensor received = memory.empty(70'000, DType::kInt32);
  const Tensor reduced = constant(memory, 5, comm.rank());
  Work receive = comm.recv(received, previous, 5);
  Work reduce = comm.all_reduce(reduced, ReduceOp::kSum);
  Work send = comm.send(constant(memory, 70'000, comm.rank()), next, 5);
  if (comm.rank() % 2 == 0) reduce.wait();
  receive.wait();
  send.wait();
  reduce.wait();  // for even ranks the second time: nothing left to do
  EXPECT_EQ(memory.values(received), memory.values(constant(memory, 70'000, previous)));
  EXPECT_EQ(memory.values(reduced), memory.values(constant(memory, 5, rank_sum(comm, 0))));
}

void destroyed_without_wait(Communicator& comm) {
  const TestMemory memory;
  const Tensor dropped = constant(memory, 1000, comm.rank());
  { const Work work = comm.all_reduce(dropped, ReduceOp::kSum); }
  EXPECT_EQ(memory.load(dropped, 999), rank_sum(comm, 0));

  const Tensor replaced = constant(memory, 1000, comm.rank());
  Work work = comm.all_reduce(replaced, ReduceOp::kSum);
  work = Work();
  EXPECT_EQ(memory.load(replaced, 999), rank_sum(comm, 0));
  EXPECT_FALSE(work.pending());
  work.wait();

  const Tensor moved = constant(memory, 1000, comm.rank());
  Work first = comm.all_reduce(moved, ReduceOp::kSum);
  Work second = std::move(first);
  EXPECT_FALSE(first.pending());  // NOLINT(bugprone-use-after-move): that is the question
  second.wait();
  EXPECT_EQ(memory.load(moved, 999), rank_sum(comm, 0));
}

// The caller may drop its tensors at once; they live until wait(), and no longer.
void work_holds_its_tensors(Communicator& comm) {
  const TestMemory memory;
  const std::int64_t n = 64 * comm.size();  // rounded to whole allocations
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

void check_group(Communicator& group, std::int64_t parent_rank_sum) {
  const TestMemory memory;
  const Tensor ranks = constant(memory, 3, parent_rank_sum);
  const Tensor first = constant(memory, 3, group.rank());
  Work sum = group.all_reduce(ranks, ReduceOp::kSum);
  group.broadcast(first, group.size() - 1).wait();
  sum.wait();
  EXPECT_EQ(memory.load(first, 2), group.size() - 1);
  for (const std::string& text : group.all_gather_strings(std::to_string(group.size()))) {
    EXPECT_EQ(text, std::to_string(group.size()));
  }
}

void split_groups(Communicator& comm) {
  const TestMemory memory;
  // Unequal groups: every third rank against the others.
  const int color = comm.rank() % 3 == 0 ? 0 : 4;
  const auto group = comm.split(color);
  EXPECT_EQ(group->kind(), comm.kind());
  std::vector<int> members;
  for (int r = 0; r < comm.size(); ++r) {
    if ((r % 3 == 0 ? 0 : 4) == color) members.push_back(r);
  }
  ASSERT_EQ(group->size(), static_cast<int>(members.size()));
  ASSERT_LT(group->rank(), group->size());
  EXPECT_EQ(members[static_cast<std::size_t>(group->rank())], comm.rank());

  // Calls of the group and of all ranks in flight together, waited for in either order.
  const Tensor in_group = constant(memory, 100, comm.rank());
  const Tensor in_all = constant(memory, 100, comm.rank());
  std::vector<Work> works;
  works.push_back(group->all_reduce(in_group, ReduceOp::kSum));
  works.push_back(comm.all_reduce(in_all, ReduceOp::kSum));
  if (comm.rank() % 2 == 0) std::reverse(works.begin(), works.end());
  for (Work& work : works) work.wait();
  std::int64_t member_sum = 0;
  for (const int member : members) member_sum += member;
  EXPECT_EQ(memory.load(in_group, 99), member_sum);
  EXPECT_EQ(memory.load(in_all, 99), rank_sum(comm, 0));

  const auto pair = group->split(group->rank() / 2);
  EXPECT_LE(pair->size(), 2);
  check_group(*pair, comm.rank());
  const auto alone = comm.split(comm.rank());
  EXPECT_EQ(alone->size(), 1);
  check_group(*alone, comm.rank());
  const auto everybody = comm.split(7);
  EXPECT_EQ(everybody->size(), comm.size());
  EXPECT_EQ(everybody->rank(), comm.rank());
  check_group(*everybody, comm.rank());
  check_group(*group, comm.rank());
}

// The formulas of TrafficCounts, written out.
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
    open_ways_of_pairs(comm, {5});
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
  const auto group = comm.split(0);
  EXPECT_EQ(group->traffic(), TrafficCounts{});
  EXPECT_EQ(comm.traffic().num_calls, calls);
  comm.reset_traffic();
  EXPECT_EQ(comm.traffic(), TrafficCounts{});
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
  const Tensor elsewhere = TestMemory(DeviceType::kMeta).empty(3);
  expect_refused([&] { return comm.all_reduce(elsewhere, ReduceOp::kSum); }, bad,
                 AllOf(HasSubstr("lives on meta"), HasSubstr(std::string(name(comm.device_type())))));
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
          fmt::format("the way from rank {} to rank {} with tag 77 is not open", source, destination));
    };
    expect_refused([&] { return comm.send(tensor, peer, 77); }, bad, not_open(comm.rank(), peer));
    expect_refused([&] { return comm.recv(tensor, peer, 77); }, bad, not_open(peer, comm.rank()));
  }
  for (const MessageWay& way : {MessageWay{0, comm.size(), 0}, {0, 0, 0}, {0, comm.size() - 1, -1}}) {
    EXPECT_THROW(comm.open_ways({way}), Error);
  }
}

// Refused before anything is sent: nothing is counted, and the communicator stays usable.
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
  EXPECT_EQ(memory.load(sum, 0), rank_sum(comm, 0));
}

}  // namespace

std::vector<ConformanceCase> conformance_behaviour_cases() {
  return {{"SeveralInFlight", several_in_flight},
          {"MessagesAcrossCollectives", messages_across_collectives},
          {"DestroyedWithoutWait", destroyed_without_wait},
          {"WorkHoldsItsTensors", work_holds_its_tensors},
          {"SplitGroups", split_groups},
          {"Traffic", traffic},
          {"BadArguments", bad_arguments}};
}

std::vector<ConformanceCase> conformance_cases() {
  std::vector<ConformanceCase> cases = conformance_data_cases();
  for (const ConformanceCase& one : conformance_behaviour_cases()) cases.push_back(one);
  return cases;
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
  open_ways_of_ring(comm, {3});
  Work send = comm.send(memory.empty(10), (comm.rank() + 1) % size, 3);
  comm.recv(memory.empty(10), (comm.rank() + size - 1) % size, 3).wait();
  send.wait();
  comm.barrier();
  (void)comm.all_gather_strings("text");
}

}  // namespace trireme

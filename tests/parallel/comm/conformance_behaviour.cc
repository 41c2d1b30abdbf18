#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/parallel/comm/conformance.h"
#include "tests/parallel/comm/message_channels.h"

namespace trireme {
namespace {

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

// Messages and collectives do not block each other, in any order of waits.
void messages_across_collectives(Communicator& comm) {
  if (comm.size() == 1) return;  // no peer
  const TestMemory memory;
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  open_channels_of_pairs(comm, {5});
  const Tensor received = memory.empty(70'000, DType::kInt32);
  const Tensor reduced = constant(memory, 5, comm.rank());
  Work receive = comm.recv(received, previous, 5);
  Work reduce = comm.all_reduce(reduced, ReduceOp::kSum);
  Work send = comm.send(constant(memory, 70'000, comm.rank()), next, 5);
  if (comm.rank() % 2 == 0) reduce.wait();
  receive.wait();
  send.wait();
  reduce.wait();  // second wait for even ranks: no effect
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
  // Unequal groups: every third rank, and the others.
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

  // Calls of the group and of all ranks are in flight at once, waited for in either order.
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

}  // namespace

std::vector<ConformanceCase> conformance_behaviour_cases() {
  return {{"SeveralInFlight", several_in_flight},
          {"MessagesAcrossCollectives", messages_across_collectives},
          {"DestroyedWithoutWait", destroyed_without_wait},
          {"SplitGroups", split_groups}};
}

std::vector<ConformanceCase> conformance_cases() {
  std::vector<ConformanceCase> cases = conformance_data_cases();
  for (const ConformanceCase& one : conformance_behaviour_cases()) cases.push_back(one);
  for (const ConformanceCase& one : conformance_cases_without_peers()) cases.push_back(one);
  return cases;
}

}  // namespace trireme

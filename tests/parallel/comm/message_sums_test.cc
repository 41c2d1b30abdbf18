#include "parallel/comm/message_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "parallel/comm/local.h"
#include "tests/parallel/comm/test_memory.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Path = MessageSums::Path;
using Ranks = std::shared_ptr<Communicator>;

constexpr int kRanks = 3, kSender = 1, kElems = 6;

void flip(const Tensor& tensor, std::int64_t element) {
  static_cast<unsigned char*>(tensor.data())[4 * element + 1] ^= 4;
}

struct Findings {
  bool is_broken = false;
  std::vector<Path> paths;
};

using Exchange = Work (*)(Communicator& comm, const Tensor& in, const Tensor& out);

/// The findings of all ranks after one exchange, in which the sender's element changes between the checksum
/// and the transfer. The other ranks post only after the change. -1: no change.
Findings exchange(int element, Exchange post) {
  Findings found;
  std::atomic<bool> is_posted = false;
  run_local_ranks(kRanks, [&](const Ranks& comm) {
    const Ranks summing = with_message_sums(comm, 1);
    summing->open_channels({{.source = kSender, .destination = 2, .tag = 5}});
    const TestMemory memory;
    const Tensor in = memory.filled(kElems, DType::kFloat32, [&](auto i) { return 100 * comm->rank() + i; });
    const Tensor out = memory.empty(kElems * kRanks);
    while (comm->rank() != kSender && !is_posted) std::this_thread::yield();
    Work work = post(*summing, in, out);
    if (comm->rank() == kSender && element >= 0) flip(in, element);
    if (comm->rank() == kSender) is_posted = true;
    work.wait();
    const auto left = comm->all_gather_value(message_sums(*summing)->difference());
    const auto paths = message_sums(*summing)->broken_paths(*comm);
    if (comm->rank() == 0) found = {.is_broken = std::reduce(left.begin(), left.end()) != 0, .paths = paths};
  });
  return found;
}

Work all_to_all(Communicator& comm, const Tensor& in, const Tensor& out) {
  return comm.all_to_all(in, out.slice(0, {kElems}));
}

Work all_gather(Communicator& comm, const Tensor& in, const Tensor& out) {
  return comm.all_gather(in, out);
}

Work broadcast(Communicator& comm, const Tensor& in, const Tensor&) {
  return comm.broadcast(in, kSender);
}

Work message(Communicator& comm, const Tensor& in, const Tensor&) {
  if (comm.rank() == kSender) return comm.send(in, 2, 5);
  return comm.rank() == 2 ? comm.recv(in, kSender, 5) : Work();
}

TEST(MessageSums, AreNothingWhereAllArrives) {
  for (const auto post : {all_to_all, all_gather, broadcast, message}) {
    const Findings found = exchange(-1, post);
    EXPECT_FALSE(found.is_broken);
    EXPECT_THAT(found.paths, IsEmpty());
  }
}

TEST(MessageSums, NameTheTwoRanksBetweenWhichABitFlipped) {
  const Findings piece = exchange(4, all_to_all);  // element of the piece for rank 2
  EXPECT_TRUE(piece.is_broken);
  EXPECT_THAT(piece.paths, ElementsAre(Path{.from = kSender, .to = 2}));
  EXPECT_FALSE(exchange(2, all_to_all).is_broken) << "that piece goes to nobody else";
  const Findings sent = exchange(4, message);
  EXPECT_TRUE(sent.is_broken);
  EXPECT_THAT(sent.paths, ElementsAre(Path{.from = kSender, .to = 2}));
  for (const auto post : {all_gather, broadcast}) {
    const Findings all = exchange(4, post);
    EXPECT_TRUE(all.is_broken);
    EXPECT_THAT(all.paths, ElementsAre(Path{.from = kSender, .to = 0}, Path{.from = kSender, .to = 2}));
  }
}

// Ranks of a group are reported by their world ranks.
TEST(MessageSums, AreThoseOfGroupsToo) {
  std::atomic<bool> is_posted = false;
  run_local_ranks(4, [&](const Ranks& comm) {
    const Ranks summing = with_message_sums(comm, 1);
    const Ranks group = summing->split(comm->rank() % 2);
    const TestMemory memory;
    const Tensor in = memory.filled(2, DType::kFloat32, [](auto) { return 1; });
    const Tensor out = memory.empty(4);
    while (comm->rank() == 1 && !is_posted) std::this_thread::yield();
    Work work = group->all_gather(in, out);
    if (comm->rank() == 3) flip(in, 1);
    if (comm->rank() == 3) is_posted = true;
    work.wait();
    EXPECT_THAT(message_sums(*summing)->broken_paths(*comm), ElementsAre(Path{.from = 3, .to = 1}));
  });
}

TEST(MessageSums, AreNotThereWithoutBeingAskedFor) {
  run_local_ranks(2, [](const Ranks& comm) { EXPECT_EQ(message_sums(*comm), nullptr); });
}

}  // namespace
}  // namespace trireme

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "tests/parallel/comm/conformance.h"
#include "tests/parallel/comm/message_channels.h"

namespace trireme {
namespace {

constexpr DType kReducible[] = {DType::kFloat32, DType::kInt32, DType::kUInt8};
constexpr DType kAll[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kInt32, DType::kUInt8};
constexpr std::int64_t kSizes[] = {0, 1, 3, 127, 1000, 4099};

// Random elements, different in every run and on each rank. They are so small that fp32 sums over ranks are
// exact in any order.
class Elements {
 public:
  /// Collective: rank 0 draws the seed for all ranks.
  explicit Elements(Communicator& comm)
      : seed_(std::stoul(comm.all_gather_strings(std::to_string(std::random_device{}())).front())),
        trace_(__FILE__, __LINE__, fmt::format("elements of seed {}", seed_)) {}

  std::int64_t operator()(int rank, std::int64_t i) const {
    const std::uint64_t place = seed_ + 0x9E3779B97F4A7C15u * static_cast<std::uint64_t>(i * 16 + rank);
    return (rank + 1) * 1000 + static_cast<std::int64_t>((place ^ place >> 31) % 601);
  }

 private:
  std::uint64_t seed_;
  ::testing::ScopedTrace trace_;
};

// The stored value. Sums of uint8 must not overflow, even for 8 ranks.
std::int64_t stored(DType dtype, std::int64_t value) {
  return dtype == DType::kUInt8 ? value % 31 : value;
}

std::int64_t reduced(const Elements& element, DType dtype, ReduceOp op, int num_ranks, std::int64_t i) {
  std::int64_t result = 0;
  for (int r = 0; r < num_ranks; ++r) {
    const std::int64_t value = stored(dtype, element(r, i));
    result = op == ReduceOp::kSum ? result + value : std::max(result, value);
  }
  return result;
}

Tensor own_elements(const TestMemory& memory, const Elements& element, const Communicator& comm,
                    std::int64_t n, DType dtype) {
  return memory.filled(n, dtype, [&](std::int64_t i) { return stored(dtype, element(comm.rank(), i)); });
}

template <class F>
std::vector<std::int64_t> expected(std::int64_t n, F value) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) result[static_cast<std::size_t>(i)] = value(i);
  return result;
}

std::string label(DType dtype, std::int64_t n) {
  return fmt::format("{} x {}", name(dtype), n);
}

template <class F>
void for_reductions(F check) {
  for (const DType dtype : kReducible) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      for (const std::int64_t n : kSizes) {
        SCOPED_TRACE(label(dtype, n) + (op == ReduceOp::kSum ? " sum" : " max"));
        check(dtype, op, n);
      }
    }
  }
}

void all_reduce(Communicator& comm) {
  const TestMemory memory;
  const Elements element(comm);
  for_reductions([&](DType dtype, ReduceOp op, std::int64_t n) {
    const Tensor inout = own_elements(memory, element, comm, n, dtype);
    comm.all_reduce(inout, op).wait();
    EXPECT_EQ(memory.values(inout),
              expected(n, [&](std::int64_t i) { return reduced(element, dtype, op, comm.size(), i); }));
  });
}

void reduce_scatter(Communicator& comm) {
  const TestMemory memory;
  const Elements element(comm);
  for_reductions([&](DType dtype, ReduceOp op, std::int64_t n) {
    const Tensor in = own_elements(memory, element, comm, n * comm.size(), dtype);
    const Tensor out = memory.empty(n, dtype);
    comm.reduce_scatter(in, out, op).wait();
    EXPECT_EQ(memory.values(out), expected(n, [&](std::int64_t i) {
                return reduced(element, dtype, op, comm.size(), comm.rank() * n + i);
              }));
    EXPECT_EQ(memory.values(in), memory.values(own_elements(memory, element, comm, n * comm.size(), dtype)))
        << "the input was written";
  });
}

void all_gather(Communicator& comm) {
  const TestMemory memory;
  const Elements element(comm);
  for (const DType dtype : kAll) {
    for (const std::int64_t n : kSizes) {
      SCOPED_TRACE(label(dtype, n));
      const auto pieces = expected(n * comm.size(), [&](std::int64_t i) {
        return stored(dtype, element(static_cast<int>(i / n), i % n));
      });
      const Tensor in = own_elements(memory, element, comm, n, dtype);
      const Tensor out = memory.empty(n * comm.size(), dtype);
      comm.all_gather(in, out).wait();
      EXPECT_EQ(memory.values(out), pieces);

      const Tensor in_place = memory.empty(n * comm.size(), dtype);
      const Tensor own = in_place.slice(comm.rank() * n, {n});
      for (std::int64_t i = 0; i < n; ++i) memory.store(own, i, stored(dtype, element(comm.rank(), i)));
      comm.all_gather(own, in_place).wait();
      EXPECT_EQ(memory.values(in_place), pieces);
    }
  }
}

void all_to_all(Communicator& comm) {
  const TestMemory memory;
  const Elements element(comm);
  for (const DType dtype : kAll) {
    for (const std::int64_t n : kSizes) {
      SCOPED_TRACE(label(dtype, n));
      const Tensor in = own_elements(memory, element, comm, n * comm.size(), dtype);
      const Tensor out = memory.empty(n * comm.size(), dtype);
      comm.all_to_all(in, out).wait();
      EXPECT_EQ(memory.values(out), expected(n * comm.size(), [&](std::int64_t i) {
                  return stored(dtype, element(static_cast<int>(i / n), comm.rank() * n + i % n));
                }));
    }
  }
}

void broadcast(Communicator& comm) {
  const TestMemory memory;
  const Elements element(comm);
  for (const DType dtype : kAll) {
    for (const std::int64_t n : kSizes) {
      for (int root = 0; root < comm.size(); ++root) {
        SCOPED_TRACE(label(dtype, n) + fmt::format(" from {}", root));
        const Tensor inout = own_elements(memory, element, comm, n, dtype);
        comm.broadcast(inout, root).wait();
        EXPECT_EQ(memory.values(inout),
                  expected(n, [&](std::int64_t i) { return stored(dtype, element(root, i)); }));
      }
    }
  }
}

// Every rank sends to every other before it receives, so posting must not block.
void messages(Communicator& comm) {
  const TestMemory memory;
  const Elements element(comm);
  open_channels_of_pairs(comm, {5});
  for (const DType dtype : kAll) {
    for (const std::int64_t n : {0, 1, 3, 127, 1000, 70'001}) {
      SCOPED_TRACE(label(dtype, n));
      std::vector<Work> works;
      std::vector<Tensor> received(static_cast<std::size_t>(comm.size()));
      const Tensor own = own_elements(memory, element, comm, n, dtype);
      for (int peer = 0; peer < comm.size(); ++peer) {
        if (peer != comm.rank()) works.push_back(comm.send(own, peer, 5));
      }
      for (int peer = 0; peer < comm.size(); ++peer) {
        if (peer == comm.rank()) continue;
        received[static_cast<std::size_t>(peer)] = memory.empty(n, dtype);
        works.push_back(comm.recv(received[static_cast<std::size_t>(peer)], peer, 5));
      }
      for (Work& work : works) work.wait();
      for (int peer = 0; peer < comm.size(); ++peer) {
        if (peer == comm.rank()) continue;
        EXPECT_EQ(memory.values(received[static_cast<std::size_t>(peer)]),
                  expected(n, [&](std::int64_t i) { return stored(dtype, element(peer, i)); }));
      }
    }
  }
}

// Tags are received in another order than sent; messages of one tag keep their order.
void tags(Communicator& comm) {
  if (comm.size() == 1) return;  // no peer
  const TestMemory memory;
  open_channels_of_ring(comm, {0, 32767});
  open_channels_of_ring(comm, {0});  // already open
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  std::vector<Work> works;
  for (int k = 0; k < 6; ++k) {
    const int tag = k % 2 == 0 ? 0 : 32767;
    works.push_back(
        comm.send(memory.filled(3, DType::kInt32, [&](std::int64_t i) { return 10 * k + i; }), next, tag));
  }
  std::vector<Tensor> received;
  for (const int tag : {32767, 32767, 0, 32767, 0, 0}) {
    received.push_back(memory.empty(3, DType::kInt32));
    works.push_back(comm.recv(received.back(), previous, tag));
  }
  for (Work& work : works) work.wait();
  const int sent_as[] = {1, 3, 0, 5, 2, 4};
  for (std::size_t j = 0; j < received.size(); ++j) {
    EXPECT_EQ(memory.values(received[j]), expected(3, [&](std::int64_t i) { return 10 * sent_as[j] + i; }));
  }
}

void strings(Communicator& comm) {
  const auto text_of = [](int rank) {
    return rank == 1 ? std::string()
                     : std::string("a\0b\n", 4) + std::string(static_cast<std::size_t>(rank) * 1000, 'x');
  };
  const std::vector<std::string> texts = comm.all_gather_strings(text_of(comm.rank()));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(comm.size()));
  for (int r = 0; r < comm.size(); ++r) EXPECT_EQ(texts[static_cast<std::size_t>(r)], text_of(r));
  for (const std::string& text : comm.all_gather_strings("")) EXPECT_EQ(text, "");
}

struct Report {
  std::int64_t rank = 0;
  double seconds = 0;
  std::uint8_t flag = 0;
};

// Values are not converted to text: signs, fractions and zero bytes arrive unchanged.
void values(Communicator& comm) {
  const auto report_of = [](int rank) {
    return Report{.rank = -rank, .seconds = 0.1 * rank, .flag = static_cast<std::uint8_t>(255 - rank)};
  };
  const std::vector<Report> reports = comm.all_gather_value(report_of(comm.rank()));
  ASSERT_EQ(reports.size(), static_cast<std::size_t>(comm.size()));
  for (int r = 0; r < comm.size(); ++r) {
    const Report &report = reports[static_cast<std::size_t>(r)], expected = report_of(r);
    EXPECT_EQ(report.rank, expected.rank);
    EXPECT_EQ(report.seconds, expected.seconds);
    EXPECT_EQ(report.flag, expected.flag);
  }
  for (const std::size_t n : {0, 1, 5000}) {
    const std::vector<std::int32_t> mine(n, 7 * comm.rank());
    std::vector<std::int32_t> expected;
    for (int r = 0; r < comm.size(); ++r) expected.insert(expected.end(), n, 7 * r);
    EXPECT_EQ(comm.all_gather_values(std::span<const std::int32_t>(mine)), expected);
  }
}

}  // namespace

std::vector<ConformanceCase> conformance_data_cases() {
  return {{"AllReduce", all_reduce},
          {"ReduceScatter", reduce_scatter},
          {"AllGather", all_gather},
          {"AllToAll", all_to_all},
          {"Broadcast", broadcast},
          {"Messages", messages},
          {"Tags", tags},
          {"Strings", strings},
          {"Values", values}};
}

}  // namespace trireme

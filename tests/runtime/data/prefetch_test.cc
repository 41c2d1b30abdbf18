#include "runtime/data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {
namespace {

/// Sample i is the number i; evaluation samples are negative. Counts reads, and can delay or fail.
class CountingData final : public Dataset {
 public:
  std::int64_t num_samples() const override { return 1000; }
  std::int64_t targets_per_sample() const override { return 1; }
  HostBatch read_train(std::int64_t first, std::int64_t count) const override {
    return read(first, count, 1);
  }
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override {
    return read(first, count, -1);
  }

  std::int64_t samples_per_read() const override { return per_read; }

  mutable std::atomic<int> num_reads{0};
  std::int64_t per_read = 0;
  bool jitter = false;
  int wait_for = 0;  // a read returns after this number of reads have started
  std::int64_t fail_at = -1;
  std::chrono::milliseconds delay{0};

 private:
  HostBatch read(std::int64_t first, std::int64_t count, int sign) const {
    ++num_reads;
    std::this_thread::sleep_for(delay);
    if (jitter) std::this_thread::sleep_for(std::chrono::microseconds(first * 7919 % 400));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (num_reads < wait_for && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (num_reads < wait_for) throw Error(ErrorCode::kRuntime, "read one after the other");
    if (first == fail_at) throw Error(ErrorCode::kRuntime, "the disk is gone");
    HostBatch batch{.input_shape = {count, 3}, .target_shape = {count}};
    for (std::int64_t i = first; i < first + count; ++i)
      batch.inputs.insert(batch.inputs.end(), 3, std::byte(i % 251));
    for (std::int64_t i = 0; i < count; ++i) batch.targets.push_back(static_cast<int>(first + i) * sign);
    return batch;
  }
};

std::vector<BatchRequest> requests(std::int64_t count) {
  std::vector<BatchRequest> list;
  for (std::int64_t i = 0; i < count; ++i) list.push_back({.first = i * 2, .count = 2});
  return list;
}

TEST(Prefetcher, BatchesComeInOrderAndEnd) {
  const auto data = std::make_shared<CountingData>();
  auto list = requests(50);
  list.push_back({.first = 7, .count = 1, .order = BatchRequest::Order::kSequential});
  Prefetcher prefetcher(data, list, {.depth = 3});
  for (std::int32_t i = 0; i < 50; ++i)
    EXPECT_EQ(prefetcher.next().value().targets, (std::vector<std::int32_t>{i * 2, i * 2 + 1}));
  EXPECT_EQ(prefetcher.next().value().targets, (std::vector<std::int32_t>{-7}));
  EXPECT_FALSE(prefetcher.next().has_value());
  EXPECT_FALSE(prefetcher.next().has_value());
}

TEST(Prefetcher, ReadsAheadUpToItsDepth) {
  const auto data = std::make_shared<CountingData>();
  Prefetcher prefetcher(data, requests(100), {.depth = 4});
  const auto wait_for_reads = [&](int count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (data->num_reads < count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time for a surplus read to show
    EXPECT_EQ(data->num_reads, count);
  };
  wait_for_reads(4);
  prefetcher.next();
  wait_for_reads(5);
}

TEST(Prefetcher, EndlessRequests) {
  const auto data = std::make_shared<CountingData>();
  std::int64_t first = 0;
  Prefetcher prefetcher(
      data, [&first]() -> std::optional<BatchRequest> { return BatchRequest{.first = first++, .count = 1}; },
      {.depth = 2});
  for (std::int32_t i = 0; i < 500; ++i) EXPECT_EQ(prefetcher.next().value().targets.at(0), i);
}

TEST(Prefetcher, AnErrorArrivesWhereItHappenedAndStays) {
  const auto data = std::make_shared<CountingData>();
  data->fail_at = 6;
  Prefetcher prefetcher(data, requests(10), {.depth = 8});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(prefetcher.next().has_value());
  for (int i = 0; i < 2; ++i) {
    try {
      prefetcher.next();
      FAIL() << "the reader's error was lost";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "the disk is gone");
    }
  }
}

TEST(Prefetcher, AnErrorOfTheRequestsArrivesToo) {
  Prefetcher prefetcher(
      std::make_shared<CountingData>(),
      []() -> std::optional<BatchRequest> { throw Error(ErrorCode::kRuntime, "no request"); }, {.depth = 1});
  EXPECT_THROW(prefetcher.next(), Error);
}

TEST(Prefetcher, MeasuresTheWait) {
  const auto data = std::make_shared<CountingData>();
  data->delay = std::chrono::milliseconds(30);
  Prefetcher prefetcher(data, requests(3), {.depth = 1});
  double spent_ms = 0.0;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    prefetcher.next();
    spent_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  const double wait_ms = prefetcher.take_wait_ms();
  EXPECT_LE(wait_ms, spent_ms);
  EXPECT_GT(wait_ms, spent_ms / 2);
  EXPECT_EQ(prefetcher.take_wait_ms(), 0.0);
}

TEST(Prefetcher, StopsAtAnyMoment) {
  for (int taken = 0; taken < 40; ++taken) {
    const auto data = std::make_shared<CountingData>();
    data->fail_at = taken % 5 == 0 ? 20 : -1;
    Prefetcher prefetcher(data, requests(20),
                          {.depth = 1 + static_cast<std::size_t>(taken) % 4, .workers = taken % 3});
    for (int i = 0; i < taken % 10; ++i) prefetcher.next();
    if (taken % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(taken * 20));
  }
}

TEST(Prefetcher, WorkersKeepTheOrder) {
  const auto data = std::make_shared<CountingData>();
  data->jitter = true;
  data->per_read = 2;
  for (const int workers : {0, 1, 4}) {
    std::vector<BatchRequest> list;
    for (std::int64_t i = 0; i < 40; ++i) list.push_back({.first = i * 7, .count = 7});
    Prefetcher prefetcher(data, list, {.depth = 5, .workers = workers});
    for (std::int32_t i = 0; i < 40; ++i) {
      const HostBatch batch = prefetcher.next().value();
      ASSERT_EQ(batch.targets.size(), 7u);
      EXPECT_EQ(batch.input_shape, Shape({7, 3}));
      EXPECT_EQ(batch.inputs.size(), 7u * 3);
      for (std::int32_t row = 0; row < 7; ++row) {
        EXPECT_EQ(batch.targets[static_cast<std::size_t>(row)], i * 7 + row);
        EXPECT_EQ(std::to_integer<int>(batch.inputs[static_cast<std::size_t>(row * 3)]), (i * 7 + row) % 251);
      }
    }
    EXPECT_FALSE(prefetcher.next().has_value());
  }
}

TEST(Prefetcher, WorkersShareABatch) {
  const auto data = std::make_shared<CountingData>();
  data->per_read = 1;
  data->wait_for = 3;  // parts that must be read concurrently
  Prefetcher prefetcher(data, std::vector<BatchRequest>{{.first = 0, .count = 3}},
                        {.depth = 1, .workers = 3});
  EXPECT_EQ(prefetcher.next().value().targets, (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(Prefetcher, WithoutWorkersNothingIsReadAhead) {
  const auto data = std::make_shared<CountingData>();
  Prefetcher prefetcher(data, requests(10), {.depth = 4, .workers = 0});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(data->num_reads, 0);
  EXPECT_EQ(prefetcher.next().value().targets.at(0), 0);
  EXPECT_EQ(data->num_reads, 1);
}

TEST(Prefetcher, NeedsRoom) {
  EXPECT_THROW(Prefetcher(std::make_shared<CountingData>(), requests(1), {.depth = 0}), Error);
}

}  // namespace
}  // namespace trireme

#include "parallel/comm/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace trireme {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t count) {
  std::mt19937 numbers(7);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(numbers());
  return bytes;
}

void flip(Bytes& bytes, std::size_t bit) {
  bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
}

TEST(Checksum, EveryBitCounts) {
  for (const std::size_t size : {1, 63, 64, 65, 200}) {
    Bytes bytes = random_bytes(size);
    const std::uint64_t before = checksum(bytes, 1);
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      flip(bytes, bit);
      EXPECT_NE(checksum(bytes, 1), before) << "bit " << bit << " of " << size << " bytes";
      flip(bytes, bit);
    }
    EXPECT_EQ(checksum(bytes, 1), before);
  }
}

// In a plain sum two flips of the top bit cancel out, as do a set bit and a cleared bit.
TEST(Checksum, TwoFlipsDoNotCancelOut) {
  const std::size_t size = 1024;
  for (const int content : {0x00, 0xff, 0x55}) {
    Bytes bytes(size, static_cast<std::byte>(content));
    const std::uint64_t before = checksum(bytes, 1);
    for (std::size_t first = 0; first < 512; ++first) {
      for (std::size_t second = first + 1; second < 8 * size; second += first % 2 == 0 ? 512 : 31) {
        flip(bytes, first);
        flip(bytes, second);
        ASSERT_NE(checksum(bytes, 1), before) << first << " and " << second << " of " << content;
        flip(bytes, first);
        flip(bytes, second);
      }
    }
  }
}

TEST(Checksum, WordsThatChangePlacesAndZerosAtTheEndCount) {
  Bytes bytes = random_bytes(300'000);
  const std::uint64_t before = checksum(bytes, 1);
  std::swap_ranges(bytes.begin(), bytes.begin() + 64, bytes.begin() + 64);  // the same lanes
  EXPECT_NE(checksum(bytes, 1), before);
  std::swap_ranges(bytes.begin(), bytes.begin() + 64, bytes.begin() + 64);
  std::swap_ranges(bytes.begin(), bytes.begin() + 65536, bytes.begin() + 65536);  // pieces
  EXPECT_NE(checksum(bytes, 1), before);
  EXPECT_NE(checksum(Bytes(64), 1), checksum(Bytes(65), 1));
  EXPECT_NE(checksum(Bytes(64), 1), checksum(Bytes(128), 1));
  EXPECT_EQ(checksum({}, 1), checksum({}, 4));
}

TEST(Checksum, OfSeveralTheirOrderCounts) {
  EXPECT_NE(combine_checksums(1, 2), combine_checksums(2, 1));
  EXPECT_NE(combine_checksums(1, 1), combine_checksums(2, 2));
  EXPECT_NE(combine_checksums(0, 1), combine_checksums(1, 0));
}

TEST(Checksum, ThreadsDoNotMatter) {
  for (const std::size_t size : {1'000'000, 2'000'003, 1 << 21}) {
    const Bytes bytes = random_bytes(size);
    const std::uint64_t one = checksum(bytes, 1);
    for (const int num_threads : {2, 3}) EXPECT_EQ(checksum(bytes, num_threads), one) << size;
  }
}

}  // namespace
}  // namespace trireme

#include "runtime/checkpoint/hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {
namespace {

std::vector<float> random_values(std::size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(HashBlocks, ShardsHashedAnywhereAddUp) {
  const auto values = random_values(13 * kHashBlockElems);
  const std::uint64_t whole = hash_blocks(values, 0, 1);
  for (const std::size_t cut : {1, 2, 5, 12}) {
    const std::span<const float> all(values);
    const std::uint64_t tail = hash_blocks(all.subspan(cut * kHashBlockElems), cut, 1);
    EXPECT_EQ(hash_blocks(all.first(cut * kHashBlockElems), 0, 1) + tail, whole);
  }
  EXPECT_EQ(hash_blocks({}, 5, 1), 0u);
}

// A value computed independently from the formula. Metrics contain the hash, and it is compared between
// builds and machines.
TEST(HashBlocks, StaysWhatItIs) {
  std::vector<float> values(2 * kHashBlockElems);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.25f;
  EXPECT_EQ(hash_blocks(values, 3, 1), 0x78D1EEA71CBAE42Dull);
}

TEST(HashBlocks, EveryBitCounts) {
  auto values = random_values(kHashBlockElems);
  std::set<std::uint64_t> seen = {hash_blocks(values, 0, 1)};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float before = values[i];
    for (int bit = 0; bit < 32; ++bit) {
      values[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(before) ^ (1u << bit));
      EXPECT_TRUE(seen.insert(hash_blocks(values, 0, 1)).second) << "element " << i << " bit " << bit;
    }
    values[i] = before;
  }
}

// The product that hash.h rejects misses these: two flipped top bits in one lane, such as the signs of
// elements 1 and 17.
TEST(HashBlocks, SignsOfPairsCount) {
  auto values = random_values(kHashBlockElems);
  std::set<std::uint64_t> seen = {hash_blocks(values, 0, 1)};
  for (std::size_t i = 0; i < 64; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      values[i] = -values[i];
      values[j] = -values[j];
      EXPECT_TRUE(seen.insert(hash_blocks(values, 0, 1)).second) << i << " and " << j;
      values[i] = -values[i];
      values[j] = -values[j];
    }
  }
}

TEST(HashBlocks, OrderIndexAndStreamCount) {
  auto values = random_values(2 * kHashBlockElems);
  const std::uint64_t hash = hash_blocks(values, 0, 1);
  EXPECT_NE(hash_blocks(values, 1, 1), hash);
  EXPECT_NE(hash_blocks(values, 0, 2), hash);
  auto swapped = values;
  std::swap(swapped[0], swapped[16]);  // the same lane
  EXPECT_NE(hash_blocks(swapped, 0, 1), hash);
  std::swap_ranges(values.begin(), values.begin() + kHashBlockElems, values.begin() + kHashBlockElems);
  EXPECT_NE(hash_blocks(values, 0, 1), hash) << "blocks changed places";
}

TEST(HashBlocks, BitsCountAndNotValues) {
  std::vector<float> values(kHashBlockElems, 0.0f);
  const std::uint64_t zeros = hash_blocks(values, 0, 1);
  values[100] = -0.0f;
  EXPECT_NE(hash_blocks(values, 0, 1), zeros);
  values[100] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(hash_blocks(values, 0, 1), hash_blocks(values, 0, 1));
}

// Each of the 64 output bits flips for about half of 4000 changes of one input bit. A fair coin would exceed
// six deviations (of 31.6) once in ten million such tests, and the seed is fixed.
TEST(HashBlocks, ChangesSpreadOverAllBits) {
  auto values = random_values(kHashBlockElems);
  const std::uint64_t hash = hash_blocks(values, 0, 1);
  std::vector<int> flips(64);
  std::mt19937 random(3);
  constexpr int kChanges = 4000;
  for (int change = 0; change < kChanges; ++change) {
    float& value = values[random() % values.size()];
    const float before = value;
    value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(before) ^ (1u << random() % 32));
    const std::uint64_t difference = hash_blocks(values, 0, 1) ^ hash;
    for (int bit = 0; bit < 64; ++bit) flips[bit] += (difference >> bit) & 1;
    value = before;
  }
  for (int bit = 0; bit < 64; ++bit) EXPECT_NEAR(flips[bit], kChanges / 2, 190) << "bit " << bit;
}

TEST(HashBlocks, RefusesPartOfABlock) {
  const std::vector<float> values(kHashBlockElems + 1);
  EXPECT_THROW(hash_blocks(values, 0, 1), Error);
}

TEST(ByteHash, PiecesDoNotMatter) {
  const auto values = random_values(5000);
  const auto bytes = std::as_bytes(std::span(values)).first(19'999);
  ByteHash whole;
  whole.update(bytes);
  for (const std::size_t piece : {1ul, 7ul, 4096ul, 5000ul}) {
    ByteHash hash;
    for (std::size_t offset = 0; offset < bytes.size(); offset += piece)
      hash.update(bytes.subspan(offset, std::min(piece, bytes.size() - offset)));
    EXPECT_EQ(hash.value(), whole.value()) << "pieces of " << piece;
  }
}

TEST(ByteHash, LengthCountsEvenOfZeros) {
  std::set<std::uint64_t> seen;
  const std::vector<std::byte> zeros(3 * kHashBlockBytes);
  for (const std::size_t size : {0ul, 1ul, 2ul, 4095ul, 4096ul, 4097ul, 8192ul, 12'288ul}) {
    ByteHash hash;
    hash.update(std::span(zeros).first(size));
    EXPECT_TRUE(seen.insert(hash.value()).second) << size;
  }
}

TEST(ByteHash, StaysWhatItIs) {
  const std::string text = "three banks of oars";
  ByteHash hash;
  hash.update(std::as_bytes(std::span(text)));
  EXPECT_EQ(hash.value(), 0x47A905F056B15A9Full);
}

}  // namespace
}  // namespace trireme

#include "runtime/checkpoint/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/error.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "hashes of state are compared between machines");

constexpr std::size_t kNumLanes = 8;
constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio, odd
constexpr std::uint64_t kByteStream = 0x6279746573u;        // "bytes"; callers' streams are small numbers

__extension__ using uint128 = unsigned __int128;

/// The XOR of both halves of the product with kMultiplier.
constexpr std::uint64_t multiply_fold(std::uint64_t x) {
  const uint128 product = static_cast<uint128>(x) * kMultiplier;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// The finaliser of splitmix64.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// The hash of the kHashBlockBytes bytes at `block`.
std::uint64_t hash_block(const std::byte* block, std::uint64_t index, std::uint64_t stream) {
  const std::uint64_t key = mix(mix(stream + kMultiplier) ^ index);
  std::uint64_t lanes[kNumLanes];
  for (std::size_t lane = 0; lane < kNumLanes; ++lane) lanes[lane] = key + lane * kMultiplier;
  for (std::size_t offset = 0; offset < kHashBlockBytes; offset += sizeof lanes) {
    std::uint64_t words[kNumLanes];
    std::memcpy(words, block + offset, sizeof words);
    for (std::size_t lane = 0; lane < kNumLanes; ++lane)
      lanes[lane] = multiply_fold(lanes[lane] ^ words[lane]);
  }
  std::uint64_t result = key;
  for (const std::uint64_t lane : lanes) result = mix(result ^ lane) + kMultiplier;
  return result;
}

std::uint64_t hash_whole_blocks(const std::byte* data, std::size_t num_blocks, std::uint64_t first_block,
                                std::uint64_t stream) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < num_blocks; ++i)
    sum += hash_block(data + i * kHashBlockBytes, first_block + i, stream);
  return sum;
}

}  // namespace

std::uint64_t hash_blocks(std::span<const float> values, std::uint64_t first_block, std::uint64_t stream) {
  TRIREME_CHECK(values.size() % kHashBlockElems == 0,
                "{} values are not a whole number of blocks of {}; pad the buffer with zeros", values.size(),
                kHashBlockElems);
  return hash_whole_blocks(std::as_bytes(values).data(), values.size() / kHashBlockElems, first_block,
                           stream);
}

std::uint64_t hash_part(std::span<const std::byte> bytes, std::uint64_t first_block) {
  const std::size_t num_whole = bytes.size() / kHashBlockBytes;
  const std::uint64_t sum = hash_whole_blocks(bytes.data(), num_whole, first_block, kByteStream);
  bytes = bytes.subspan(num_whole * kHashBlockBytes);
  if (bytes.empty()) return sum;
  std::array<std::byte, kHashBlockBytes> last{};
  std::copy_n(bytes.data(), bytes.size(), last.data());
  return sum + hash_block(last.data(), first_block + num_whole, kByteStream);
}

std::uint64_t hash_of_parts(std::uint64_t sum, std::uint64_t num_bytes) {
  return sum + mix(num_bytes + 1);
}

void ByteHash::update(std::span<const std::byte> bytes) {
  if (partial_bytes_ > 0) {
    const std::size_t count = std::min(bytes.size(), kHashBlockBytes - partial_bytes_);
    std::copy_n(bytes.data(), count, partial_.data() + partial_bytes_);
    partial_bytes_ += count;
    bytes = bytes.subspan(count);
    if (partial_bytes_ < kHashBlockBytes) return;
    sum_ += hash_block(partial_.data(), num_blocks_++, kByteStream);
    partial_bytes_ = 0;
  }
  const std::size_t whole = bytes.size() / kHashBlockBytes;
  sum_ += hash_whole_blocks(bytes.data(), whole, num_blocks_, kByteStream);
  num_blocks_ += whole;
  bytes = bytes.subspan(whole * kHashBlockBytes);
  std::copy_n(bytes.data(), bytes.size(), partial_.data());
  partial_bytes_ = bytes.size();
}

std::uint64_t ByteHash::value() const {
  const std::uint64_t last = hash_part(std::span(partial_).first(partial_bytes_), num_blocks_);
  return hash_of_parts(sum_ + last, num_blocks_ * kHashBlockBytes + partial_bytes_);
}

}  // namespace trireme

#include "runtime/data/permutation.h"

#include <bit>
#include <cassert>

#include "runtime/base/error.h"
#include "runtime/base/rng.h"

namespace trireme {
namespace {

// The last counter word keeps these draws distinct from each other and from draws of ops (see RngKey::draw),
// whose blocks are numbered from 0.
constexpr std::uint32_t kPermutationStream = 0xFFFF0001u;
constexpr std::uint32_t kOffsetStream = 0xFFFF0002u;
constexpr int kRounds = 8;

Philox4 draw(std::uint64_t seed, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t stream) {
  return philox4x32({a, b, c, stream},
                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t seed, std::uint32_t epoch)
    : size_(size), seed_(seed), epoch_(epoch) {
  TRIREME_CHECK(size >= 1 && size <= (std::int64_t{1} << 62), "cannot permute {} samples", size);
  const int bits = std::bit_width(static_cast<std::uint64_t>(size - 1));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
}

// A Feistel network over the next power of two. Each half-round is invertible for any round function, so the
// whole is a permutation. If the number of bits is odd, the halves differ by one bit.
std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  const std::uint32_t left_mask = static_cast<std::uint32_t>((std::uint64_t{1} << left_bits_) - 1);
  const std::uint32_t right_mask = static_cast<std::uint32_t>((std::uint64_t{1} << right_bits_) - 1);
  std::uint32_t left = static_cast<std::uint32_t>(value >> right_bits_) & left_mask;
  std::uint32_t right = static_cast<std::uint32_t>(value) & right_mask;
  for (std::uint32_t round = 0; round < kRounds; round += 2) {
    left ^= draw(seed_, right, round, epoch_, kPermutationStream)[0] & left_mask;
    right ^= draw(seed_, left, round + 1, epoch_, kPermutationStream)[0] & right_mask;
  }
  return (std::uint64_t{left} << right_bits_) | right;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  assert(position >= 0 && position < size_);
  // Cycle walking: values out of range are encrypted again until they are in range, which keeps the map one
  // to one. The range is more than half of the power of two, so fewer than two passes are needed on average.
  std::uint64_t value = static_cast<std::uint64_t>(position);
  do {
    value = encrypt(value);
  } while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

std::int64_t epoch_offset(std::int64_t bound, std::uint64_t seed, std::uint32_t epoch, std::uint32_t index) {
  const Philox4 words = draw(seed, index, 0, epoch, kOffsetStream);
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32) | words[1];
  return static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(bound));
}

}  // namespace trireme

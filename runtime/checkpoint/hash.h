// 64-bit hashes of state: to tell whether two runs hold the same bits, and whether a file is what was
// written.
//
// [Note: state hash] Values in global order are cut into blocks of 1024 floats (buffers are padded to whole
// blocks with zeros, and shards begin at blocks). A block's hash is keyed by its global index and by the
// stream it belongs to, and blocks are combined by addition modulo 2^64. Whoever holds a block can hash it,
// in any order; the sum over all ranks does not depend on the layout.
//
// A block of 512 words w is hashed in eight independent lanes (word i goes to lane i mod 8), so that the
// products of different lanes overlap in the processor:
//     p = (lane ^ w) * M, 128 bits wide;   lane = low half of p ^ high half of p
// The lanes are then folded one after another through the finaliser of splitmix64 (Steele, Lea and Flood,
// OOPSLA 2014, with the constants of Stafford's variant 13). Not for adversaries.
//
// Rejected: keeping only the low half of p and rotating it. A change of w's top bit then stays a change of
// one known bit, which a change of that bit in the lane's next word undoes: two flips that cost nothing to
// find. Also rejected: CRC or SHA for files. This hash runs at memory speed without special instructions, and
// detects as much as 64 bits can.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

inline constexpr std::size_t kHashBlockElems = 1024;
inline constexpr std::size_t kHashBlockBytes = kHashBlockElems * sizeof(float);

/// Sum of the hashes of the blocks `first_block`, `first_block` + 1, ... of `stream`. Bits count, not values:
/// -0.0 differs from 0.0, and any NaN is welcome. Throws Error(kInvalidInput) unless values.size() is a
/// multiple of kHashBlockElems.
std::uint64_t hash_blocks(std::span<const float> values, std::uint64_t first_block, std::uint64_t stream);

/// Checksum of bytes that come in pieces of any size: the sum over their blocks, the last one filled up with
/// zeros, and a hash of their number.
class ByteHash {
 public:
  void update(std::span<const std::byte> bytes);
  /// Of everything so far.
  std::uint64_t value() const;

 private:
  std::array<std::byte, kHashBlockBytes> partial_{};
  std::size_t partial_bytes_ = 0;
  std::uint64_t num_blocks_ = 0;
  std::uint64_t sum_ = 0;
};

}  // namespace trireme

// 64-bit hashes of state: to compare the bits of two runs, and to verify files.
//
// [Note: state hash] Values in global order are cut into blocks of 1024 floats. Buffers are padded with zeros
// to whole blocks, and shards begin at block boundaries. The hash of a block is keyed by its global index and
// its stream. Block hashes are added modulo 2^64. So any rank can hash the blocks it holds, in any order, and
// the sum over all ranks does not depend on the layout.
//
// A block of 512 words w is hashed in eight independent lanes (word i goes to lane i mod 8), so that the
// products of different lanes overlap in the processor:
//     p = (lane ^ w) * M, 128 bits wide;   lane = low half of p ^ high half of p
// The lanes are then folded one after another through the finaliser of splitmix64 (Steele, Lea and Flood,
// OOPSLA 2014, with the constants of Stafford's variant 13). Not secure against adversaries.
//
// Rejected: keeping only the low half of p and rotating it. A change of w's top bit then changes only one
// known bit, and a change of that bit in the lane's next word undoes it: such a pair of flips is easy to
// find. Rejected: CRC or SHA for files. This hash runs at memory speed without special instructions, and
// detects as much as 64 bits can.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

inline constexpr std::size_t kHashBlockElems = 1024;
inline constexpr std::size_t kHashBlockBytes = kHashBlockElems * sizeof(float);

/// Sum of the hashes of the blocks `first_block`, `first_block` + 1, ... of `stream`. Compares bits, not
/// values: -0.0 differs from 0.0, and NaNs are allowed. Throws Error(kInvalidInput) unless values.size() is a
/// multiple of kHashBlockElems.
std::uint64_t hash_blocks(std::span<const float> values, std::uint64_t first_block, std::uint64_t stream);

/// Sum of the hashes of the blocks of `bytes`, a part of a content that begins at block `first_block`. The
/// last block is padded with zeros, so only the content's last part may end within a block.
std::uint64_t hash_part(std::span<const std::byte> bytes, std::uint64_t first_block);
/// ByteHash::value() of a content of `num_bytes`, from the sum of hash_part() of its parts.
std::uint64_t hash_of_parts(std::uint64_t sum, std::uint64_t num_bytes);

/// Checksum of bytes passed in pieces of any size: the sum of their block hashes, with the last block padded
/// with zeros, plus a hash of the byte count.
class ByteHash {
 public:
  void update(std::span<const std::byte> bytes);
  /// The checksum of all bytes so far.
  std::uint64_t value() const;

 private:
  std::array<std::byte, kHashBlockBytes> partial_{};
  std::size_t partial_bytes_ = 0;
  std::uint64_t num_blocks_ = 0;
  std::uint64_t sum_ = 0;
};

}  // namespace trireme

// ByteHash of a content from its parts, which may be hashed in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

/// Sum of the hashes of the blocks of `bytes`, a part of a content that begins at block `first_block`. The
/// last block is padded with zeros, so only the content's last part may end within a block.
std::uint64_t hash_part(std::span<const std::byte> bytes, std::uint64_t first_block);
/// ByteHash::value() of a content of `num_bytes`, from the sum of hash_part() of its parts.
std::uint64_t hash_of_parts(std::uint64_t sum, std::uint64_t num_bytes);

}  // namespace trireme

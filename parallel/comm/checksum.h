// A checksum of memory for what is looked at in every step: state that nobody should have changed, messages.
//
// Fletcher's (IEEE Transactions on Communications 30, 1982) in 16 lanes: of 32-bit words w, each lane adds up
//     a += w;   b += a
// in 64 bits, which never overflow within a piece. A changed word is found, and so are two flipped bits
// anywhere in a piece: where they leave `a` as it was, they are at different places, so `b` is not. The sums
// of all lanes and pieces are folded into 64 bits, where what changes several of them is lost once in 2^64.
// Rejected: the hash of states ([Note: state hash]), which takes four times as long, and a sum of 64-bit
// words alone, in which two flips of a top bit cancel out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

/// The same number for the same bytes, with any number of threads. Not kept in files: lanes may change.
std::uint64_t checksum(std::span<const std::byte> bytes, int num_threads);

/// Of several: their order counts.
std::uint64_t combine_checksums(std::uint64_t first, std::uint64_t second);

}  // namespace trireme

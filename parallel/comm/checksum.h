// A checksum of memory that is verified in every step: state that must not change, and messages.
//
// Fletcher's checksum (IEEE Transactions on Communications 30, 1982) in 16 lanes: for 32-bit words w, each
// lane computes
//     a += w;   b += a
// in 64 bits, which never overflow within a piece. A changed word is always detected. So are two flipped bits
// anywhere in a piece: if they cancel in `a`, they are at different positions and change `b`. The sums of all
// lanes and pieces are folded into 64 bits, where a change of several sums is lost once in 2^64. Rejected:
// the state hash ([Note: state hash]), which takes four times as long. Rejected: a plain sum of 64-bit words,
// in which two flips of a top bit cancel out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

/// The result does not depend on the number of threads. Do not store it in files: lanes may change.
std::uint64_t checksum(std::span<const std::byte> bytes, int num_threads);

/// Combines checksums; the order matters.
std::uint64_t combine_checksums(std::uint64_t first, std::uint64_t second);

}  // namespace trireme

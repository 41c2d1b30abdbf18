// How the exchange of a bucket is cut, so that the first chunks are gathered while the next are still summed.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

/// A range of a bucket that is exchanged, summed and gathered on its own.
struct Chunk {
  std::int64_t first = 0;
  std::int64_t num_elems = 0;
  bool operator==(const Chunk&) const = default;
};

struct BucketSize {
  std::int64_t num_elems = 0;  // with padding: whole norm blocks for each rank
  std::int64_t elem_bytes = 0;
  int ranks = 1;
};

/// Cuts a bucket into at most 16 chunks that every rank owns equal pieces of, in whole norm blocks. No piece
/// of two chunks or more is shorter than 60 KiB, the last chunk's apart.
/// See [Note: chunked exchange] in exchange_chunks.cc.
std::vector<Chunk> cut_exchange(const BucketSize& bucket);

}  // namespace trireme

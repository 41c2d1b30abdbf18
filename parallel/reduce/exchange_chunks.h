// Splits the exchange of a bucket into chunks, so that the first are gathered while the next are still
// summed.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

/// A range of a bucket that is exchanged, summed and gathered separately.
struct Chunk {
  std::int64_t first = 0;
  std::int64_t num_elems = 0;
  bool operator==(const Chunk&) const = default;
};

struct BucketSize {
  std::int64_t num_elems = 0;  // with padding to whole norm blocks for each rank
  std::int64_t elem_bytes = 0;
  int ranks = 1;
};

/// Splits a bucket into at most 16 chunks. Every rank owns an equal piece of each chunk, in whole norm
/// blocks. With two or more chunks, no piece is shorter than 60 KiB, except in the last chunk. See [Note:
/// chunked exchange] in exchange_chunks.cc.
std::vector<Chunk> cut_exchange(const BucketSize& bucket);

}  // namespace trireme

#include "parallel/reduce/exchange_chunks.h"

#include <algorithm>

#include "kernels/backend.h"

namespace trireme {
namespace {

// [Note: chunked exchange] A sum that every rank wants whole is made in two halves: pieces go to their owners
// (all-to-all), the owners' sums go back (all-gather). On a slow wire each half fills it, but the second half
// of a bucket starts when the first has ended on all ranks, and then the wire waits for handshakes and for
// the slowest rank. In chunks the halves overlap: while later chunks are under way to their owners, the sums
// of earlier ones go back. No sum changes: who adds an element is all that a chunk decides.
//
// Within one machine there is no such wait, and every chunk is one more point where ranks wait for each
// other: where cores are busy that costs more than it wins, so only groups that span machines cut. On a
// device the operations of a communicator follow each other on one stream, and nothing would overlap.
//
// Small chunks hide more of the wait and cost more calls: with 28 MiB a bucket in chunks of 500 KiB steps
// took 1.4 times as long as in one piece. Open MPI sends messages below 64 KiB over TCP without a handshake:
// shorter ones win nothing.
constexpr std::int64_t kMaxChunks = 16;
constexpr std::int64_t kMinMessageBytes = 60 << 10;

}  // namespace

std::vector<Chunk> cut_exchange(const BucketSize& bucket) {
  const std::int64_t unit = kNormBlock * bucket.ranks;  // elements of the smallest chunk
  const std::int64_t units = bucket.num_elems / unit;
  const std::int64_t least = std::max<std::int64_t>(1, kMinMessageBytes / (kNormBlock * bucket.elem_bytes));
  const std::int64_t length = std::max(least, (units + kMaxChunks - 1) / kMaxChunks) * unit;
  std::vector<Chunk> chunks;
  for (std::int64_t first = 0; first < bucket.num_elems; first += length) {
    chunks.push_back({first, std::min(length, bucket.num_elems - first)});
  }
  return chunks;
}

}  // namespace trireme

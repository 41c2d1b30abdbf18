#include "parallel/reduce/exchange_chunks.h"

#include <algorithm>

#include "kernels/backend.h"

namespace trireme {
namespace {

// [Note: chunked exchange] A sum that every rank needs whole takes two phases: pieces go to their owners
// (all-to-all), and the owners' sums go back (all-gather). On a slow wire each phase saturates it. But the
// second phase of a bucket starts only when the first has ended on all ranks, and meanwhile the wire is idle,
// for handshakes and for the slowest rank. With chunks the phases overlap: while later chunks go to their
// owners, the sums of earlier ones go back. No sum changes: a chunk only determines which rank adds an
// element.
//
// Within one machine there is no such idle time, and every chunk is one more synchronisation between ranks.
// On busy cores that costs more than it gains, so only groups that span machines use chunks. On a device the
// operations of a communicator run in order on one stream, so nothing would overlap.
//
// Small chunks hide more of the idle time and cost more calls: with 28 MiB a bucket in chunks of 500 KiB,
// steps took 1.4 times as long as without chunks. Open MPI sends messages below 64 KiB over TCP without a
// handshake: shorter ones gain nothing.
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

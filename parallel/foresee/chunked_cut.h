// Cutting a model's blocks into the chunks of an interleaved pipeline where memory is short: rank r of p
// holds the chunks r, r + p, r + 2p and so on, so what one of them may have depends on the others.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "parallel/foresee/stage_cut.h"

namespace trireme {

/// What a cut into chunks is to achieve.
struct ChunkedCutCosts {
  std::vector<double> blocks;  // of each block: milliseconds
  int ranks = 1;               // p
  int chunks = 2;              // of each rank
  /// Whether memory takes rank `rank`'s chunks of a cut: it needs no less with more blocks in a chunk, and
  /// the same whatever the others have.
  std::function<bool(const StageCut& cut, int rank)> fits;
  /// How often `fits` may be asked.
  std::size_t most_questions = 2000;
  /// Of each block: blocks of one kind need the same memory, wherever they lie. Empty: each is of its own.
  std::vector<int> kinds;
};

struct ChunkedCut {
  StageCut cut;        // of ranks * chunks virtual stages
  double slowest = 0;  // the cost of its dearest chunk
  double bound = 0;    // no cut's dearest chunk costs less, whatever fits
  /// No cut that fits has a cheaper one: all were looked at, or it reaches the bound.
  bool is_least = false;
};

/// The cut whose dearest chunk is cheapest among all that fit, and of those one whose chunks are even: moving
/// one boundary by a block makes them no more so. Empty where none was found.
///
/// [Note: slowest chunk] Not the cut whose dearest *rank*, the sum of its chunks, is cheapest: an interleaved
/// schedule waits for every chunk that is longer than its neighbours. Simulated with 48 blocks whose times
/// differ by 2 %, on 4 ranks x 2, 32 micro-batches: the best sums of ranks (2 % less) made a step of 566 ms,
/// the best chunks one of 428; with a head of 8 blocks' time 649 and 503.
///
/// [Note: exact chunks] The last chunk of every rank follows from the others: each takes as many blocks as it
/// may, since both time and memory only grow with them. The others are looked at in the order of how even
/// they are, and left where what remains cannot be cut into cheaper chunks than the best cut's. These may be
/// many (C(n - 1, p (v - 1)) for n blocks and v chunks: 2,380 for a ResNet-50 on 4 ranks x 2, 5e14 for 96
/// blocks on 4 x 4), so the search ends after a number of steps and questions about memory that is the same
/// on every machine, and `is_least` says whether it was whole.
std::optional<ChunkedCut> cut_into_chunks(const ChunkedCutCosts& costs);

}  // namespace trireme

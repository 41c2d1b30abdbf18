// The canonical sum inside of a host: the first half of an exchange on two levels.
//
// [Note: sums inside of a host] The micro-batches of a host's ranks, in order, are the leaves of a complete
// subtree of the tree over all of them ([Note: canonical reduction]), and each rank's are complete subtrees
// of equal size in it. So the host's sum is a node of the one tree, and who adds it changes no bit. Each rank
// gets the other ranks' values of its part of a buffer (all-to-all), and adds them in tree order. The sum
// takes the place of what the rank has sent, and what other hosts send that of what it has received: two
// levels need no byte of memory more than one.
#pragma once

#include "parallel/layout/data_axis.h"
#include "parallel/reduce/grad_reduction.h"

namespace trireme {

/// Adds `pieces`, [n] each, in the order of `additions`; the last addition writes `result`, [n]. The pieces
/// are used up. Without additions, copies the first.
void add_pieces(Context& ctx, const std::vector<Tensor>& pieces, const std::vector<Addition>& additions,
                const Tensor& result);

/// Starts it for sources[0] of `exchange`, [padded], into received[0], of the same size. Collective over the
/// ranks of the host.
void start_host_sum(const DataAxis& axis, GradExchange& exchange);

/// Waits for a chunk and adds. The sum over the host, of what the ranks at this rank's place own of the
/// chunk, is the first R-th of the chunk in sources[0].
void finish_host_sum(Context& ctx, const DataAxis& axis, GradExchange& exchange, std::size_t chunk);

}  // namespace trireme

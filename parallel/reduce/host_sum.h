// The canonical sum within a host: the first half of an exchange on two levels.
//
// [Note: sums inside of a host] The micro-batches of a host's ranks, in order, are the leaves of a complete
// subtree of the tree over all micro-batches ([Note: canonical reduction]). Each rank's micro-batches are
// complete subtrees of equal size within it. So the host's sum is a node of the same tree, and the rank that
// adds it changes no bit. Each rank receives the other ranks' values of its part of a buffer (all-to-all),
// and adds them in tree order. The sum overwrites the data that the rank has sent, and data from other hosts
// overwrites the data that it has received: two levels need no more memory than one.
#pragma once

#include "parallel/layout/data_axis.h"
#include "parallel/reduce/grad_reduction.h"

namespace trireme {

/// Adds `pieces`, [n] each, in the order of `additions`; the last addition writes `result`, [n]. Overwrites
/// the pieces. Without additions, copies the first piece.
void add_pieces(Context& ctx, const std::vector<Tensor>& pieces, const std::vector<Addition>& additions,
                const Tensor& result);

/// Starts the sum of sources[0] of `exchange`, [padded], into received[0], of the same size. Collective over
/// the host's ranks.
void start_host_sum(const DataAxis& axis, GradExchange& exchange);

/// Waits for a chunk and adds. The first 1/R of the chunk in sources[0] then holds the host's sum over the
/// pieces of the ranks at this rank's position, R being the ranks per host.
void finish_host_sum(Context& ctx, const DataAxis& axis, GradExchange& exchange, std::size_t chunk);

}  // namespace trireme

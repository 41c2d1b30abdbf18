// Seconds that an exchange of ranks takes on the links of a cluster.
#pragma once

#include "parallel/cluster/cluster.h"

namespace trireme {

/// `size` ranks, each `stride` ranks after the one before it; ranks are numbered node by node.
struct RankGroup {
  int size = 1;
  int stride = 1;
};

/// The links of one kind of device.
class ClusterNetwork {
 public:
  /// Keeps references to both, which must live longer. Exchanges throw Error(kInvalidInput) for a link that
  /// they need and that is missing.
  ClusterNetwork(const Cluster& cluster, const ClusterDevice& device);

  /// All-gather, or reduce-scatter, of `bytes` in all, by a ring: (n-1)/n of the bytes pass each link. Groups
  /// of neighbouring ranks that exchange at once share a node's wire.
  double gather_s(double bytes, RankGroup group) const;
  /// Both, one after the other.
  double all_reduce_s(double bytes, RankGroup group) const { return 2 * gather_s(bytes, group); }
  /// A message of `bytes` to the rank `distance` after the sender, while all ranks of a node send one.
  double message_s(double bytes, int distance) const;

 private:
  bool crosses_nodes(long reach) const { return reach > ranks_per_node_; }
  const ClusterLink& inside() const;
  const ClusterLink& between() const;

  const Cluster& cluster_;
  const ClusterDevice& device_;
  int ranks_per_node_;
};

}  // namespace trireme

// Seconds that an exchange between ranks takes on the links of a cluster.
#pragma once

#include "parallel/cluster/cluster.h"

namespace trireme {

/// `size` ranks, each `stride` ranks after the previous one; ranks are numbered node by node.
struct RankGroup {
  int size = 1;
  int stride = 1;
  bool operator==(const RankGroup&) const = default;
};

/// The links of one kind of device.
class ClusterNetwork {
 public:
  /// Keeps references to both, which must outlive this. Exchanges throw Error(kInvalidInput) if they need a
  /// missing link.
  ClusterNetwork(const Cluster& cluster, const ClusterDevice& device);

  /// All-gather or reduce-scatter of `bytes` in total, by a ring: (n-1)/n of the bytes pass each link. Groups
  /// of neighbouring ranks that communicate at the same time share a node's link.
  double gather_s(double bytes, RankGroup group) const;
  /// A reduce-scatter followed by an all-gather.
  double all_reduce_s(double bytes, RankGroup group) const { return 2 * gather_s(bytes, group); }
  /// A message of `bytes` to the rank `distance` after the sender, while every rank of a node sends one.
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

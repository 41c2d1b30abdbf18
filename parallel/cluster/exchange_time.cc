#include "parallel/cluster/exchange_time.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"

namespace trireme {

ClusterNetwork::ClusterNetwork(const Cluster& cluster, const ClusterDevice& device)
    : cluster_(cluster), device_(device), ranks_per_node_(cluster.ranks_per_node) {}

const ClusterLink& ClusterNetwork::inside() const {
  if (device_.inside.empty()) {
    throw ClusterError(
        ErrorCode::kInvalidInput,
        "the run needs exchanges between the ranks of a node, and devices.{} has no link for them: say "
        "inside = \"LINK\"",
        device_.name);
  }
  return cluster_.link(device_.inside);
}

const ClusterLink& ClusterNetwork::between() const {
  if (device_.between.empty()) {
    throw ClusterError(
        ErrorCode::kInvalidInput,
        "the run needs more than the {} ranks of a node, and devices.{} has no link between nodes: say "
        "between = \"LINK\"",
        ranks_per_node_, device_.name);
  }
  return cluster_.link(device_.between);
}

double ClusterNetwork::gather_s(double bytes, RankGroup group) const {
  if (group.size < 2) return 0;
  const double share = (group.size - 1.0) / group.size * bytes;
  const double hops = std::log2(group.size);
  const auto inside_s = [&] { return share * inside().ranks_sharing / (inside().gb_s * 1e9); };
  if (!crosses_nodes(static_cast<long>(group.size) * group.stride)) {
    return hops * inside().latency_us * 1e-6 + inside_s();
  }
  const ClusterLink& wire = between();
  const double groups = std::min(static_cast<double>(group.stride), wire.ranks_sharing);
  return hops * wire.latency_us * 1e-6 +
         std::max(ranks_per_node_ > 1 ? inside_s() : 0.0, share * groups / (wire.gb_s * 1e9));
}

double ClusterNetwork::message_s(double bytes, int distance) const {
  const ClusterLink& link = distance >= ranks_per_node_ ? between() : inside();
  return link.latency_us * 1e-6 + bytes * link.ranks_sharing / (link.gb_s * 1e9);
}

}  // namespace trireme

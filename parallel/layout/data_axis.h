// The data axis for exchanges of gradients and parameters: one level of ranks, or two levels (hosts, and the
// ranks of each host).
//
// [Note: two levels] N = H x R data ranks run on H hosts, R neighbours on each. A buffer is summed inside
// each host first, so one copy leaves a host instead of R. It is gathered over the hosts first, so one copy
// enters a host. Local rank p of host h owns piece p H + h of a buffer. The ranks with local rank p on all
// hosts therefore own a contiguous part, 1/R of the buffer, and every exchange of either level is a plain
// collective over contiguous memory. A host sends (H-1)/H of a buffer for the sum and the same for the
// gather, which is the minimum. One level is the case R = 1, as if each rank had its own host: rank r owns
// piece r.
#pragma once

#include <memory>
#include <utility>

#include "parallel/comm/communicator.h"
#include "parallel/layout/sharding.h"
#include "parallel/mesh/mesh_groups.h"

namespace trireme {

class DataAxis {
 public:
  explicit DataAxis(const MeshGroups& groups)
      : all_(groups.along(Axis::kData)), in_host_(groups.in_host), over_hosts_(groups.over_hosts) {}
  /// One level.
  DataAxis(std::shared_ptr<Communicator> all) : all_(std::move(all)) {}
  /// One level. `all` must outlive this object.
  DataAxis(Communicator& all) : all_(std::shared_ptr<Communicator>(), &all) {}

  int size() const { return all_->size(); }
  int rank() const { return all_->rank(); }
  bool is_hierarchical() const { return in_host_ != nullptr; }
  /// H and R of [Note: two levels].
  int num_hosts() const { return over_hosts().size(); }
  int ranks_per_host() const { return is_hierarchical() ? in_host_->size() : 1; }

  /// All ranks.
  Communicator& all() const { return *all_; }
  /// The ranks with this rank's local rank on every host; with one level, all ranks.
  Communicator& over_hosts() const { return is_hierarchical() ? *over_hosts_ : *all_; }
  /// The ranks of this rank's host; two levels only.
  Communicator& in_host() const { return *in_host_; }

  /// This rank's piece of a buffer that is sharded over the axis.
  Sharding sharding() const {
    const int shard = is_hierarchical() ? in_host_->rank() * num_hosts() + over_hosts_->rank() : rank();
    return {size(), shard};
  }
  /// The part of `whole` that over_hosts() owns, 1/R; with one level, all of it.
  Tensor part_of_place(const Tensor& whole) const {
    const std::int64_t part = whole.num_elems() / ranks_per_host();
    return is_hierarchical() ? whole.slice(in_host_->rank() * part, {part}) : whole;
  }

  /// Starts to gather pieces into part_of_place(whole), which is all of `whole` with one level. `own` may be
  /// this rank's piece of `whole`. Collective over over_hosts().
  Work gather(const Tensor& own, const Tensor& whole) const {
    return over_hosts().all_gather(own, part_of_place(whole));
  }
  /// Starts the second half, two levels only: part_of_place(whole) of every rank of the host becomes `whole`.
  Work gather_in_host(const Tensor& whole) const { return in_host_->all_gather(part_of_place(whole), whole); }
  /// Gathers over all levels and waits.
  void gather_and_wait(const Tensor& own, const Tensor& whole) const {
    gather(own, whole).wait();
    if (is_hierarchical()) gather_in_host(whole).wait();
  }

 private:
  std::shared_ptr<Communicator> all_;
  std::shared_ptr<Communicator> in_host_, over_hosts_;  // null: one level
};

}  // namespace trireme

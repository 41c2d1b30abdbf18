// How the gradients of a step become complete: the last sums, and the uses of tied parameters.
#include <algorithm>

#include "parallel/grad_accumulator.h"
#include "parallel/stage_groups.h"
#include "runtime/base/error.h"

namespace trireme {

void GradAccumulator::complete_sums(Context& ctx) {
  while (!exchanges_.empty()) finish_exchange(ctx);
  for (Work& work : gathers_) work.wait();
  gathers_.clear();
  if (!each_ && comm_.size() > 1) return;
  for (Bucket& bucket : buckets_) {
    if (bucket.sums.empty()) continue;  // of another stage
    for (const Addition& add : finish_tree(bucket.stack.entries())) {
      const Tensor& target = bucket.sums[static_cast<std::size_t>(add.target)];
      ctx.backend->add(ctx.exec,
                       {.a = target, .b = bucket.sums[static_cast<std::size_t>(add.source)], .out = target});
    }
    bucket.sums.resize(1);
    bucket.stack = {};
  }
}

void GradAccumulator::send_use(Context& ctx, int bucket, Communicator& comm, int stage) {
  complete_sums(ctx);
  tied_.push_back(comm.send(owned(bucket), stage, kTiedTag));
}

void GradAccumulator::receive_use(Context& ctx, int bucket, Communicator& comm, int stage) {
  const std::int64_t elems = group_of(bucket).num_elems;
  const Tensor gradient =
      ctx.empty({sharded() ? sharding_.piece(elems) : elems}, options_.dtype, MemoryCategory::kCommunication);
  tied_.push_back(comm.recv(gradient, stage, kTiedTag));
  buckets_[static_cast<std::size_t>(bucket)].sums = {gradient};
}

void GradAccumulator::finish(Context& ctx) {
  complete_sums(ctx);
  for (Work& work : tied_) work.wait();
  tied_.clear();
  add_uses(ctx);
}

// Buckets are in block order, so the uses of a tied parameter are added in block order.
void GradAccumulator::add_uses(Context& ctx) {
  for (int b = 0; b < static_cast<int>(buckets_.size()); ++b) {
    const GradBucket& further = layout_.buckets[static_cast<std::size_t>(b)];
    if (further.use == 0) continue;
    std::vector<Tensor>& sums = buckets_[static_cast<std::size_t>(b)].sums;
    if (!buckets_[static_cast<std::size_t>(owner_bucket(further.group))].sums.empty()) {
      const Tensor sum = gradient(further.group);
      ctx.backend->add(ctx.exec, {.a = sum, .b = owned(b), .out = sum});
    }
    sums.clear();
  }
}

int GradAccumulator::owner_bucket(int group) const {
  const auto owner = std::ranges::find_if(
      layout_.buckets, [&](const GradBucket& o) { return o.group == group && o.use == 0; });
  return static_cast<int>(owner - layout_.buckets.begin());
}

Tensor GradAccumulator::owned(int bucket) const {
  const ParamGroup& group = group_of(bucket);
  const Bucket& b = buckets_[static_cast<std::size_t>(bucket)];
  TRIREME_CHECK(!b.sums.empty(), "group '{}' has no gradient", group.name);
  if (!sharded()) return b.sums[0].slice(0, {group.num_elems});
  const std::int64_t piece = sharding_.piece(group.num_elems);
  return b.sums[0].num_elems() == piece ? b.sums[0]
                                        : b.sums[0].slice(sharding_.first(group.num_elems), {piece});
}

Tensor GradAccumulator::gradient(int group) const {
  return owned(owner_bucket(group));
}

}  // namespace trireme

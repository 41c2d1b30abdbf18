// How the gradients of a step become complete: the last sums, and the uses of tied parameters.
#include <algorithm>

#include "parallel/layout/stage_groups.h"
#include "parallel/reduce/grad_accumulator.h"
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
      ctx.run(AddArgs{.a = target, .b = bucket.sums[static_cast<std::size_t>(add.source)], .out = target});
    }
    bucket.sums.resize(1);
    bucket.stack = {};
  }
}

void GradAccumulator::send_use(Context& ctx, int bucket, Communicator& comm, int stage) {
  complete_sums(ctx);
  tied_.push_back(comm.send(summed(bucket), stage, kTiedTag));
}

void GradAccumulator::receive_use(Context& ctx, int bucket, Communicator& comm, int stage) {
  const std::int64_t elems = group_of(bucket).num_elems;
  const bool is_piece = sharded() || gathers_after_uses(bucket);
  const Tensor gradient =
      ctx.empty({is_piece ? sharding_.piece(elems) : elems}, options_.dtype, MemoryCategory::kCommunication);
  tied_.push_back(comm.recv(gradient, stage, kTiedTag));
  buckets_[static_cast<std::size_t>(bucket)].sums = {gradient};
}

void GradAccumulator::start_gather(Context& ctx, int unit) {
  for (const int b : layout_.unit_buckets[static_cast<std::size_t>(unit)]) {
    if (!completes(b, unit) || layout_.buckets[static_cast<std::size_t>(b)].use > 0) continue;
    if (gathers_after_uses(b)) {
      while (!exchanges_.empty()) finish_exchange(ctx);
      for (Work& work : tied_) work.wait();
      tied_.clear();
      add_uses(ctx, layout_.buckets[static_cast<std::size_t>(b)].group);
    }
    while (!exchanges_.empty() && exchanges_.front().bucket != b) finish_exchange(ctx);
    if (exchanges_.empty()) {
      for (const Chunk& chunk : chunks_of(b)) start_gather_chunk(b, chunk);
    } else {
      Exchange exchange = std::move(exchanges_.front());
      exchanges_.pop_front();
      finish_step(ctx, exchange, Sums::kGathered);
    }
  }
}

void GradAccumulator::start_gather_chunk(int b, const Chunk& chunk) {
  const Tensor whole = sum_of(b).slice(chunk.first, {chunk.num_elems});
  const std::int64_t piece = chunk.num_elems / comm_.size();
  gathers_.push_back(comm_.all_gather(whole.slice(comm_.rank() * piece, {piece}), whole));
}

void GradAccumulator::finish(Context& ctx) {
  complete_sums(ctx);
  for (Work& work : tied_) work.wait();
  tied_.clear();
  for (int group = 0; group < static_cast<int>(layout_.groups.size()); ++group) add_uses(ctx, group);
}

// Buckets are in block order, so the uses of a tied parameter are added in block order.
void GradAccumulator::add_uses(Context& ctx, int group) {
  const int owner = owner_bucket(group);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const GradBucket& further = layout_.buckets[b];
    if (further.group != group || further.use == 0 || buckets_[b].sums.empty()) continue;
    if (!buckets_[static_cast<std::size_t>(owner)].sums.empty()) {
      const Tensor sum = summed(owner);
      ctx.run(AddArgs{.a = sum, .b = summed(static_cast<int>(b)), .out = sum});
    }
    buckets_[b] = Bucket{};
  }
}

bool GradAccumulator::gathers_after_uses(int bucket) const {
  if (sharded() || comm_.size() == 1 || options_.reduction == Reduction::kFast) return false;
  const int group = layout_.buckets[static_cast<std::size_t>(bucket)].group;
  return std::ranges::any_of(layout_.buckets,
                             [&](const GradBucket& other) { return other.group == group && other.use > 0; });
}

int GradAccumulator::owner_bucket(int group) const {
  const auto owner = std::ranges::find_if(
      layout_.buckets, [&](const GradBucket& o) { return o.group == group && o.use == 0; });
  return static_cast<int>(owner - layout_.buckets.begin());
}

Tensor GradAccumulator::owned(int bucket) const {
  if (sharded()) return piece_of(bucket);
  return sum_of(bucket).slice(0, {group_of(bucket).num_elems});
}

Tensor GradAccumulator::piece_of(int bucket) const {
  const std::int64_t elems = group_of(bucket).num_elems, piece = sharding_.piece(elems);
  const Tensor& sum = sum_of(bucket);
  return sum.num_elems() == piece ? sum : sum.slice(sharding_.first(elems), {piece});
}

const Tensor& GradAccumulator::sum_of(int bucket) const {
  const std::vector<Tensor>& sums = buckets_[static_cast<std::size_t>(bucket)].sums;
  TRIREME_CHECK(!sums.empty(), "group '{}' has no gradient", group_of(bucket).name);
  return sums[0];
}

Tensor GradAccumulator::gradient(int group) const {
  return owned(owner_bucket(group));
}

}  // namespace trireme

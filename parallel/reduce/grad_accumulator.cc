#include "parallel/reduce/grad_accumulator.h"

#include <algorithm>
#include <utility>

#include "parallel/layout/stage_groups.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// Maximum number of exchanges in flight: enough to overlap the next block's backward, and a bound on the
// receive buffers.
constexpr std::size_t kMaxExchanges = 2;

// Up to this many elements between two gaps are zeroed with them, which is faster than another call.
constexpr std::int64_t kMaxFilledBetween = 32 * 1024;

}  // namespace

GradAccumulator::GradAccumulator(const ModelLayout& layout, const BatchLayout& batch,
                                 const GradReductionOptions& options, const DataAxis& axis)
    : layout_(layout),
      options_(options),
      axis_(axis),
      sharding_(axis.sharding()),
      reduction_(make_reduction(batch, options, axis)),
      buckets_(layout.buckets.size()) {}

const ParamGroup& GradAccumulator::group_of(int bucket) const {
  return layout_.groups[static_cast<std::size_t>(layout_.buckets[static_cast<std::size_t>(bucket)].group)];
}

// Gaps between parameters must be zero: the norm reads them, and the exchange sends them. Biases and gains
// are adjacent, so one call fills all their gaps.
Tensor GradAccumulator::new_leaf(Context& ctx, const ParamGroup& group) const {
  Tensor leaf = ctx.empty({sharding_.padded(group.num_elems)}, DType::kFloat32, reduction_->leaf_category());
  std::int64_t first = 0, last = 0;  // range to be filled
  const auto fill = [&] {
    if (last > first) ctx.backend->fill_zero(ctx.exec, leaf.slice(first, {last - first}));
  };
  for (std::size_t s = 0; s < group.slots.size(); ++s) {
    const std::int64_t gap = group.slots[s].offset + group.slots[s].shape.num_elems();
    const std::int64_t end = s + 1 < group.slots.size() ? group.slots[s + 1].offset : leaf.num_elems();
    if (end == gap) continue;
    if (last == 0 || gap - last > kMaxFilledBetween) {
      fill();
      first = gap;
    }
    last = end;
  }
  fill();
  return leaf;
}

void GradAccumulator::begin(Context& ctx, int unit, int /*micro_batch*/) {
  for (const int b : layout_.unit_buckets[static_cast<std::size_t>(unit)]) {
    GradSum& bucket = buckets_[static_cast<std::size_t>(b)];
    // A leaf is kept if it sums several micro-batches (fast), or if earlier blocks of a merged group have
    // written their part.
    if (bucket.leaf.defined()) continue;
    bucket.leaf = new_leaf(ctx, group_of(b));
    bucket.written.assign(group_of(b).slots.size(), false);
  }
}

GradientTarget GradAccumulator::target(const ParamUse& use) {
  if (group_of(use.bucket).frozen) return {};
  GradSum& bucket = buckets_[static_cast<std::size_t>(use.bucket)];
  const ParamSlot& slot = group_of(use.bucket).slots[static_cast<std::size_t>(use.slot)];
  auto written = bucket.written[static_cast<std::size_t>(use.slot)];
  const GradientMode mode = written ? GradientMode::kAccumulate : GradientMode::kOverwrite;
  written = true;
  return {bucket.leaf.slice(slot.offset, slot.shape), mode};
}

// Only the slots of `unit`: other blocks of a merged group fill their own.
void GradAccumulator::fill_unwritten(Context& ctx, int b, int unit) {
  GradSum& bucket = buckets_[static_cast<std::size_t>(b)];
  const ParamGroup& group = group_of(b);
  const bool is_further_use = layout_.buckets[static_cast<std::size_t>(b)].use > 0;
  for (std::size_t s = 0; s < group.slots.size(); ++s) {
    const bool of_other_block = group.slots[s].block != unit && !is_further_use;
    if (bucket.written[s] || of_other_block) continue;
    ctx.backend->fill_zero(ctx.exec, bucket.leaf.slice(group.slots[s].offset, group.slots[s].shape));
    bucket.written[s] = true;
  }
}

void GradAccumulator::round_leaf(Context& ctx, int b) {
  GradSum& bucket = buckets_[static_cast<std::size_t>(b)];
  if (options_.dtype == DType::kFloat32) return;
  const Tensor rounded = ctx.empty(bucket.leaf.shape(), options_.dtype, reduction_->leaf_category());
  ctx.run(CastArgs{.x = bucket.leaf, .y = rounded});
  bucket.leaf = rounded;
}

void GradAccumulator::end(Context& ctx, int unit, int micro_batch) {
  for (const int b : layout_.unit_buckets[static_cast<std::size_t>(unit)]) {
    GradSum& bucket = buckets_[static_cast<std::size_t>(b)];
    fill_unwritten(ctx, b, unit);
    if (!completes(b, unit)) continue;
    round_leaf(ctx, b);
    reduction_->add_leaf(ctx, bucket, micro_batch);
  }
}

std::vector<GradAccumulator::Leaf> GradAccumulator::take_leaves(Context& ctx, int unit) {
  std::vector<Leaf> leaves;
  for (const int b : layout_.unit_buckets[static_cast<std::size_t>(unit)]) {
    fill_unwritten(ctx, b, unit);
    if (!completes(b, unit)) continue;
    round_leaf(ctx, b);
    leaves.push_back({b, std::exchange(buckets_[static_cast<std::size_t>(b)].leaf, Tensor())});
  }
  return leaves;
}

// Only exchanges that are gathered right after the sum can overlap in chunks.
std::vector<Chunk> GradAccumulator::chunks_of(int b) const {
  const std::int64_t elems = sharding_.padded(group_of(b).num_elems);
  const bool gathers = !sharded() && reduction_->completes_chunks() && !gathers_after_uses(b);
  if (!gathers || !options_.cut_exchanges) return {{0, elems}};
  return cut_exchange({.num_elems = elems, .elem_bytes = size_bytes(options_.dtype), .ranks = axis_.size()});
}

GradExchange& GradAccumulator::open_exchange(int b, int micro_batch) {
  return exchanges_.emplace_back(
      GradExchange{.bucket = b, .micro_batch = micro_batch, .chunks = chunks_of(b)});
}

void GradAccumulator::start_reduce_in_host(Context& ctx, int unit, int micro_batch) {
  for (const int b : layout_.unit_buckets[static_cast<std::size_t>(unit)]) {
    if (!completes(b, unit)) continue;
    reduction_->start_in_host(ctx, buckets_[static_cast<std::size_t>(b)], open_exchange(b, micro_batch));
  }
}

void GradAccumulator::start_reduce(Context& ctx, int unit, int micro_batch) {
  for (const int b : layout_.unit_buckets[static_cast<std::size_t>(unit)]) {
    if (!completes(b, unit)) continue;
    GradSum& bucket = buckets_[static_cast<std::size_t>(b)];
    if (axis_.size() == 1) {
      reduction_->sum_alone(ctx, bucket);
      continue;
    }
    const auto waiting = std::ranges::find_if(
        exchanges_, [&](const GradExchange& open) { return open.bucket == b && !open.has_started; });
    TRIREME_CHECK(!axis_.is_hierarchical() || waiting != exchanges_.end(),
                  "group '{}' was not summed inside of its host before", group_of(b).name);
    GradExchange& exchange = axis_.is_hierarchical() ? *waiting : open_exchange(b, micro_batch);
    reduction_->start(ctx, bucket, exchange);
    exchange.has_started = true;
    const auto num_started = std::ranges::count(exchanges_, true, &GradExchange::has_started);
    if (static_cast<std::size_t>(num_started) >= kMaxExchanges) finish_exchange(ctx);
  }
}

void GradAccumulator::finish_exchange(Context& ctx, Then then) {
  GradExchange exchange = std::move(exchanges_.front());
  exchanges_.pop_front();
  reduction_->finish(ctx, buckets_[static_cast<std::size_t>(exchange.bucket)], exchange,
                     [&](const Chunk& chunk) {
                       if (then == Then::kGather) start_gather_chunk(exchange.bucket, chunk);
                     });
}

void GradAccumulator::drop(int group) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (layout_.buckets[b].group == group) buckets_[b] = {};
  }
}

void GradAccumulator::complete_sums(Context& ctx) {
  while (!exchanges_.empty()) finish_exchange(ctx);
  for (ChunkGather& gather : gathers_) gather.work.wait();  // the gather inside the host may still follow
  for (GradSum& bucket : buckets_) {
    if (!bucket.sums.empty()) reduction_->complete(ctx, bucket);  // buckets of other stages are empty
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
      finish_exchange(ctx, Then::kGather);
    }
  }
}

void GradAccumulator::start_gather_chunk(int b, const Chunk& chunk) {
  const Tensor whole = chunk_of_sum(b, chunk);
  const std::int64_t piece = chunk.num_elems / axis_.size();
  gathers_.push_back({b, chunk, axis_.gather(whole.slice(sharding_.rank * piece, {piece}), whole)});
}

void GradAccumulator::start_gather_in_host(Context& ctx, int unit) {
  for (const int b : layout_.unit_buckets[static_cast<std::size_t>(unit)]) {
    if (!completes(b, unit)) continue;
    if (!reduction_->sums_pieces()) {
      while (std::ranges::find(exchanges_, b, &GradExchange::bucket) != exchanges_.end())
        finish_exchange(ctx);
      gathers_.push_back({b, {0, sum_of(b).num_elems()}, axis_.gather_in_host(sum_of(b))});
      continue;
    }
    for (ChunkGather& gather : gathers_) {
      if (gather.bucket != b) continue;
      gather.work.wait();
      gather.work = axis_.gather_in_host(chunk_of_sum(b, gather.chunk));
    }
  }
}

void GradAccumulator::finish(Context& ctx) {
  complete_sums(ctx);
  gathers_.clear();
  for (Work& work : tied_) work.wait();
  tied_.clear();
  for (int group = 0; group < static_cast<int>(layout_.groups.size()); ++group) add_uses(ctx, group);
}

// Buckets are in block order, and so are the additions of the uses of a tied parameter.
void GradAccumulator::add_uses(Context& ctx, int group) {
  const int owner = owner_bucket(group);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const GradBucket& further = layout_.buckets[b];
    if (further.group != group || further.use == 0 || buckets_[b].sums.empty()) continue;
    if (!buckets_[static_cast<std::size_t>(owner)].sums.empty()) {
      const Tensor sum = summed(owner);
      ctx.run(AddArgs{.a = sum, .b = summed(static_cast<int>(b)), .out = sum});
    }
    buckets_[b] = {};
  }
}

bool GradAccumulator::gathers_after_uses(int bucket) const {
  if (sharded() || axis_.size() == 1 || !reduction_->sums_pieces()) return false;
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

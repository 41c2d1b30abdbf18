#include "parallel/reduce/grad_accumulator.h"

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Exchanges under way before the oldest is finished: enough to overlap the next block's backward, and a bound
// on the receive buffers.
constexpr std::size_t kMaxExchanges = 2;

}  // namespace

GradAccumulator::GradAccumulator(const ModelLayout& layout, const BatchLayout& batch,
                                 const GradAccumulatorOptions& options, Communicator& comm)
    : layout_(layout),
      batch_(batch),
      options_(options),
      comm_(comm),
      sharding_{comm.size(), comm.rank()},
      each_(options.reduce_each_micro_batch && comm.size() > 1),
      buckets_(layout.buckets.size()) {
  TRIREME_CHECK(batch.data_ranks == comm.size(), "the batch is laid out for {} ranks, the group has {}",
                batch.data_ranks, comm.size());
  TRIREME_CHECK(!each_ || batch.assignment == Assignment::kStrided,
                "reducing every micro-batch wants the strided assignment of micro-batches");
  TRIREME_CHECK(options.dtype == DType::kFloat32 || options.reduction == Reduction::kCanonical,
                "the fast reduction sums in fp32 only, not in {}: use the canonical one, or fp32 gradients",
                name(options.dtype));
  if (each_) return;
  for (int r = 0; r < batch.data_ranks; ++r) {
    partials_.push_back(partial_sums(batch.global_micro_batch(r, 0), batch.per_rank()));
    num_rounds_ = std::max(num_rounds_, partials_.back().size());
  }
}

const ParamGroup& GradAccumulator::group_of(int bucket) const {
  return layout_.groups[static_cast<std::size_t>(layout_.buckets[static_cast<std::size_t>(bucket)].group)];
}

// Gaps between parameters are zero: the norm reads them, and they travel.
Tensor GradAccumulator::new_leaf(Context& ctx, const ParamGroup& group) const {
  Tensor leaf = ctx.empty({sharding_.padded(group.num_elems)}, DType::kFloat32, leaf_category());
  for (std::size_t s = 0; s < group.slots.size(); ++s) {
    const std::int64_t first = group.slots[s].offset + group.slots[s].shape.num_elems();
    const std::int64_t last = s + 1 < group.slots.size() ? group.slots[s + 1].offset : leaf.num_elems();
    if (last > first) ctx.backend->fill_zero(ctx.exec, leaf.slice(first, {last - first}));
  }
  return leaf;
}

void GradAccumulator::begin(Context& ctx, int unit, int /*micro_batch*/) {
  for (const int b : layout_.unit_buckets[static_cast<std::size_t>(unit)]) {
    Bucket& bucket = buckets_[static_cast<std::size_t>(b)];
    // A leaf goes on where it is the sum of the micro-batches so far (fast), or where blocks above have
    // written their part of it (a merged group).
    if (bucket.leaf.defined()) continue;
    bucket.leaf = new_leaf(ctx, group_of(b));
    bucket.written.assign(group_of(b).slots.size(), false);
  }
}

GradientTarget GradAccumulator::target(const ParamUse& use) {
  Bucket& bucket = buckets_[static_cast<std::size_t>(use.bucket)];
  const ParamSlot& slot = group_of(use.bucket).slots[static_cast<std::size_t>(use.slot)];
  auto written = bucket.written[static_cast<std::size_t>(use.slot)];
  const GradientMode mode = written ? GradientMode::kAccumulate : GradientMode::kOverwrite;
  written = true;
  return {bucket.leaf.slice(slot.offset, slot.shape), mode};
}

// Those of `unit`: the blocks of a merged group fill in their own.
void GradAccumulator::fill_unwritten(Context& ctx, int b, int unit) {
  Bucket& bucket = buckets_[static_cast<std::size_t>(b)];
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
  Bucket& bucket = buckets_[static_cast<std::size_t>(b)];
  if (options_.dtype == DType::kFloat32) return;
  const Tensor rounded = ctx.empty(bucket.leaf.shape(), options_.dtype, leaf_category());
  ctx.run(CastArgs{.x = bucket.leaf, .y = rounded});
  bucket.leaf = rounded;
}

void GradAccumulator::end(Context& ctx, int unit, int micro_batch) {
  for (const int b : layout_.unit_buckets[static_cast<std::size_t>(unit)]) {
    Bucket& bucket = buckets_[static_cast<std::size_t>(b)];
    fill_unwritten(ctx, b, unit);
    if (!completes(b, unit)) continue;
    round_leaf(ctx, b);
    if (options_.reduction == Reduction::kFast || each_) continue;
    push(ctx, bucket, std::exchange(bucket.leaf, Tensor()),
         {batch_.global_micro_batch(comm_.rank(), micro_batch), 0});
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

void GradAccumulator::push(Context& ctx, Bucket& bucket, const Tensor& sum, Subtree subtree) {
  bucket.sums.push_back(sum);
  for (int joins = bucket.stack.push(subtree); joins > 0; --joins) {
    const Tensor right = bucket.sums.back();
    bucket.sums.pop_back();
    ctx.run(AddArgs{.a = bucket.sums.back(), .b = right, .out = bucket.sums.back()});
  }
}

GradAccumulator::Exchange GradAccumulator::exchange_of(Context& ctx, int b, int micro_batch) {
  Bucket& bucket = buckets_[static_cast<std::size_t>(b)];
  Exchange exchange{.bucket = b, .micro_batch = micro_batch};
  const auto receive = [&](std::int64_t elems) {
    return exchange.received.emplace_back(ctx.empty({elems}, options_.dtype, MemoryCategory::kCommunication));
  };
  if (options_.reduction == Reduction::kFast) {
    exchange.sources.push_back(std::exchange(bucket.leaf, Tensor()));
    if (sharded()) {
      const Tensor piece = receive(exchange.sources[0].num_elems() / comm_.size());
      exchange.works.push_back(comm_.reduce_scatter(exchange.sources[0], piece, ReduceOp::kSum));
    } else {
      exchange.works.push_back(comm_.all_reduce(exchange.sources[0], ReduceOp::kSum));
    }
    return exchange;
  }
  if (each_) {
    exchange.sources.push_back(std::exchange(bucket.leaf, Tensor()));
  } else {
    // A rank with fewer partial sums than others sends its last one again; nobody reads it.
    for (std::size_t round = 0; round < num_rounds_; ++round) {
      exchange.sources.push_back(bucket.sums[std::min(round, bucket.sums.size() - 1)]);
    }
  }
  for (const Tensor& source : exchange.sources) receive(source.num_elems());
  exchange.chunks = chunks_of(b);
  for (const Chunk& chunk : exchange.chunks) {
    const Shape length{chunk.num_elems};
    for (std::size_t i = 0; i < exchange.sources.size(); ++i) {
      exchange.works.push_back(comm_.all_to_all(exchange.sources[i].slice(chunk.first, length),
                                                exchange.received[i].slice(chunk.first, length)));
    }
  }
  return exchange;
}

// Only what is summed and gathered at once can overlap.
std::vector<Chunk> GradAccumulator::chunks_of(int b) const {
  const std::int64_t elems = sharding_.padded(group_of(b).num_elems);
  const bool gathers = !sharded() && !each_ && !gathers_after_uses(b);
  if (!gathers || !options_.cut_exchanges) return {{0, elems}};
  return cut_exchange({.num_elems = elems, .elem_bytes = size_bytes(options_.dtype), .ranks = comm_.size()});
}

void GradAccumulator::start_reduce(Context& ctx, int unit, int micro_batch) {
  for (const int b : layout_.unit_buckets[static_cast<std::size_t>(unit)]) {
    if (!completes(b, unit)) continue;
    Bucket& bucket = buckets_[static_cast<std::size_t>(b)];
    if (comm_.size() == 1) {
      // Nothing to exchange; what the fast reduction has accumulated is the sum, of this micro-batch or of
      // all.
      if (bucket.leaf.defined()) add_to_sum(ctx, bucket, std::exchange(bucket.leaf, Tensor()));
      continue;
    }
    exchanges_.push_back(exchange_of(ctx, b, micro_batch));
    if (exchanges_.size() >= kMaxExchanges) finish_exchange(ctx);
  }
}

void GradAccumulator::finish_exchange(Context& ctx) {
  Exchange exchange = std::move(exchanges_.front());
  exchanges_.pop_front();
  const bool canonical = options_.reduction == Reduction::kCanonical;
  if (canonical && !each_) return finish_step(ctx, exchange, Sums::kPieces);
  for (Work& work : exchange.works) work.wait();
  return canonical ? finish_round(ctx, exchange) : finish_fast(ctx, exchange);
}

// Reducing once: the partial sums of all ranks, over what this rank owns of each chunk, become the sum.
void GradAccumulator::finish_step(Context& ctx, Exchange& exchange, Sums sums) {
  std::vector<Subtree> leaves;
  for (const auto& partials : partials_) leaves.insert(leaves.end(), partials.begin(), partials.end());
  const std::vector<Addition> additions = finish_tree(leaves);
  exchange.sources.clear();
  auto work = exchange.works.begin();
  for (const Chunk& chunk : exchange.chunks) {
    for (std::size_t round = 0; round < num_rounds_; ++round) (work++)->wait();
    sum_chunk(ctx, exchange, chunk, additions);
    if (sums == Sums::kGathered) start_gather_chunk(exchange.bucket, chunk);
  }
}

// The last sum is written where it stays.
void GradAccumulator::sum_chunk(Context& ctx, const Exchange& exchange, const Chunk& chunk,
                                const std::vector<Addition>& additions) {
  const std::int64_t piece = chunk.num_elems / comm_.size();
  std::vector<Tensor> pieces;  // in order of their leaves
  for (std::size_t r = 0; r < partials_.size(); ++r) {
    for (std::size_t p = 0; p < partials_[r].size(); ++p) {
      const std::int64_t first = chunk.first + static_cast<std::int64_t>(r) * piece;
      pieces.push_back(exchange.received[p].slice(first, {piece}));
    }
  }
  const Tensor kept = home_of_piece(ctx, exchange.bucket, chunk);
  for (std::size_t i = 0; i < additions.size(); ++i) {
    const Tensor& target = pieces[static_cast<std::size_t>(additions[i].target)];
    const Tensor& source = pieces[static_cast<std::size_t>(additions[i].source)];
    ctx.run(AddArgs{.a = target, .b = source, .out = i + 1 < additions.size() ? target : kept});
  }
  if (additions.empty()) ctx.backend->copy(ctx.exec, kept, pieces[0]);
}

Tensor GradAccumulator::home_of_piece(Context& ctx, int b, const Chunk& chunk) {
  Bucket& bucket = buckets_[static_cast<std::size_t>(b)];
  const Shape piece{chunk.num_elems / comm_.size()};
  if (options_.sharded.gradients) {
    bucket.sums = {ctx.empty(piece, options_.dtype, MemoryCategory::kGradients)};
    return bucket.sums[0];
  }
  bucket.sums.resize(1);
  return bucket.sums[0].slice(chunk.first + comm_.rank() * piece.num_elems(), piece);
}

// Reducing every micro-batch: one leaf of each rank, in rank order, enters this rank's binary counter.
void GradAccumulator::finish_round(Context& ctx, Exchange& exchange) {
  Bucket& bucket = buckets_[static_cast<std::size_t>(exchange.bucket)];
  const std::int64_t piece = exchange.received[0].num_elems() / comm_.size();
  for (int r = 0; r < comm_.size(); ++r) {
    push(ctx, bucket, exchange.received[0].slice(r * piece, {piece}),
         {batch_.global_micro_batch(r, exchange.micro_batch), 0});
  }
  // What has not joined a sum of an earlier round still lies in the receive buffer: a piece must not keep it
  // alive.
  const auto* begin = static_cast<const std::byte*>(exchange.received[0].data());
  const auto* end = begin + exchange.received[0].size_bytes();
  for (std::size_t i = 0; i < bucket.sums.size(); ++i) {
    const auto* at = static_cast<const std::byte*>(bucket.sums[i].data());
    if (at < begin || at >= end) continue;
    const Tensor own = ctx.empty({piece}, options_.dtype, MemoryCategory::kGradients);
    ctx.backend->copy(ctx.exec, own, bucket.sums[i]);
    bucket.sums[i] = own;
  }
}

void GradAccumulator::add_to_sum(Context& ctx, Bucket& bucket, const Tensor& gradient) {
  if (bucket.sums.empty()) {
    bucket.sums = {gradient};
  } else {
    ctx.run(AddArgs{.a = bucket.sums[0], .b = gradient, .out = bucket.sums[0]});
  }
}

void GradAccumulator::finish_fast(Context& ctx, Exchange& exchange) {
  Bucket& bucket = buckets_[static_cast<std::size_t>(exchange.bucket)];
  if (!sharded()) {
    bucket.sums = {exchange.sources[0]};
  } else if (bucket.sums.empty()) {
    const Tensor own = ctx.empty(exchange.received[0].shape(), DType::kFloat32, MemoryCategory::kGradients);
    ctx.backend->copy(ctx.exec, own, exchange.received[0]);
    bucket.sums = {own};
  } else {
    ctx.run(AddArgs{.a = bucket.sums[0], .b = exchange.received[0], .out = bucket.sums[0]});
  }
}

void GradAccumulator::drop(int group) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (layout_.buckets[b].group == group) buckets_[b] = Bucket{};
  }
}

}  // namespace trireme

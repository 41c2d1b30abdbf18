#include "parallel/run/tensor_exchange.h"

#include "runtime/base/error.h"
#include "runtime/context.h"

namespace trireme {

ChunkRange TensorExchange::own_chunks(int chunks) const {
  const int count = chunks / places_.size();
  return {.first = places_.rank() * count, .count = count};
}

void TensorExchange::sum_own_piece(Context& ctx, const Tensor& partial, const Tensor& pieces,
                                   const Tensor& sum) {
  const int places = places_.size();
  const std::int64_t elems = partial.num_elems(), piece = elems / places;
  TRIREME_CHECK(piece * places == elems, "a partial sum {} cannot be exchanged in {} equal pieces",
                partial.shape().to_string(), places);
  places_.all_to_all(partial.reshape({elems}), pieces).wait();
  const auto from = [&](int place) { return pieces.slice(place * piece, {piece}); };
  for (int apart = 1; apart < places; apart *= 2) {
    for (int left = 0; left < places; left += 2 * apart) {
      const bool is_last = 2 * apart == places;
      ctx.run(AddArgs{.a = from(left), .b = from(left + apart), .out = is_last ? sum : from(left)});
    }
  }
}

void TensorExchange::sum_partials(Context& ctx, const Tensor& partial) {
  unsettled_.push_back(TensorCall::kSum);
  const std::int64_t elems = partial.num_elems();
  const Tensor pieces = ctx.empty({elems}, DType::kFloat32, MemoryCategory::kCommunication);
  const Tensor own = pieces.slice(0, {elems / places_.size()});
  sum_own_piece(ctx, partial, pieces, own);
  places_.all_gather(own, partial.reshape({elems})).wait();
}

Tensor TensorExchange::gather_partials(Context& ctx, const Tensor& own) {
  unsettled_.push_back(TensorCall::kSum);
  Tensor all = ctx.empty({places_.size() * own.num_elems()}, DType::kFloat32, MemoryCategory::kCommunication);
  places_.all_gather(own.reshape({own.num_elems()}), all).wait();
  return all;
}

Tensor TensorExchange::scatter_sum(Context& ctx, const Tensor& partial) {
  unsettled_.push_back(TensorCall::kScatterSum);
  Tensor shard = ctx.empty(shard_shape(partial.shape(), places_.size()));
  const Tensor pieces = ctx.empty({partial.num_elems()}, DType::kFloat32, MemoryCategory::kCommunication);
  sum_own_piece(ctx, partial, pieces, shard.reshape({shard.num_elems()}));
  return shard;
}

Tensor TensorExchange::gather_rows(Context& ctx, const Tensor& shard) {
  unsettled_.push_back(TensorCall::kGatherRows);
  Tensor stream = ctx.empty(stream_shape(shard.shape(), places_.size()), shard.dtype());
  places_.all_gather(shard.reshape({shard.num_elems()}), stream.reshape({stream.num_elems()})).wait();
  return stream;
}

void TensorExchange::settle(ActionKind kind) {
  TRIREME_CHECK(!unsettled_.empty(),
                "the block does less over the tensor axis than it has declared (Block::tensor_calls(), of a "
                "sharded sequence Block::sequence_calls())");
  const ActionKind made = action_of(unsettled_.front());
  TRIREME_CHECK(made == kind, "the block has made a {} over the tensor axis where it has declared a {}",
                name(made), name(kind));
  unsettled_.pop_front();
}

void TensorExchange::check_settled() const {
  TRIREME_CHECK(
      unsettled_.empty(),
      "the block does {} things over the tensor axis, the first of them a {}, that it has not declared "
      "(Block::tensor_calls(), of a sharded sequence Block::sequence_calls())",
      unsettled_.size(), name(action_of(unsettled_.front())));
}

}  // namespace trireme

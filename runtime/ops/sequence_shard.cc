#include "runtime/ops/sequence_shard.h"

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

class GatheredAgain final : public RebuiltTensor {
 public:
  explicit GatheredAgain(Tensor shard) : shard_(std::move(shard)) {}
  Tensor kept() const override { return shard_; }

 protected:
  Tensor build(Context& ctx) override { return all_rows(ctx, std::exchange(shard_, Tensor())); }

 private:
  Tensor shard_;
};

// A view of this rank's rows.
Tensor own_rows(const Context& ctx, const Tensor& stream) {
  const Shape shape = shard_shape(stream.shape(), ctx.tensor->size());
  return stream.slice(ctx.tensor->rank() * shape.num_elems(), shape);
}

// A copy of this rank's rows, so that the rest of `stream` can be freed.
Tensor copied_rows(Context& ctx, const Tensor& stream) {
  const Tensor own = own_rows(ctx, stream);
  const Tensor shard = ctx.empty(own.shape(), own.dtype());
  ctx.backend->copy(ctx.exec, shard, own);
  return shard;
}

struct ToShardBackward {
  ValueId stream = kNoValue;

  std::string name() const { return "to_shard"; }
  std::vector<Tensor> saved() const { return {}; }
  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    gradients.add(ctx, stream, all_rows(ctx, gradients.take(y)));
  }
};

struct ToWholeBackward {
  ValueId shard = kNoValue;

  std::string name() const { return "to_whole"; }
  std::vector<Tensor> saved() const { return {}; }
  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    gradients.add(ctx, shard, copied_rows(ctx, gradients.take(y)));
  }
};

}  // namespace

bool shards_sequence(const Context& ctx) {
  return ctx.tensor != nullptr && ctx.tensor->shards_sequence();
}

Tensor summed_over_ranks(Context& ctx, const Tensor& partial) {
  if (ctx.tensor == nullptr) return partial;
  if (ctx.tensor->shards_sequence()) return ctx.tensor->scatter_sum(ctx, partial);
  ctx.tensor->sum_partials(ctx, partial);
  return partial;
}

Tensor all_rows(Context& ctx, const Tensor& shard) {
  return shards_sequence(ctx) ? ctx.tensor->gather_rows(ctx, shard) : shard;
}

std::shared_ptr<RebuiltTensor> gathered_again(const Tensor& shard) {
  return std::make_shared<GatheredAgain>(shard);
}

Tensor to_shard(Context& ctx, const Tensor& stream) {
  if (!shards_sequence(ctx)) return stream;
  return recorded(ctx, copied_rows(ctx, stream), ToShardBackward{stream.id()});
}

Tensor to_whole(Context& ctx, const Tensor& input) {
  // Cast here, so that the linear layer casts nothing and saves this value, which is kept as a shard.
  const Tensor shard = cast(ctx, input, ctx.precision.dtype_of(OpKind::kLinear, input.dtype()));
  if (!shards_sequence(ctx)) return shard;
  const Tensor stream = recorded(ctx, all_rows(ctx, shard.detach()), ToWholeBackward{shard.id()});
  if (ctx.tape != nullptr) ctx.tape->save_as(stream.id(), gathered_again(shard.detach()));
  return stream;
}

std::vector<ShardPart> parts_of(const Context& ctx, const Shape& shard) {
  const bool shards = shards_sequence(ctx);
  if (shard.num_elems() == 0 || !shards) {
    const std::int64_t samples = shard.dim(0);
    return {{.samples = samples, .elems = samples == 0 ? 0 : shard.num_elems() / samples}};
  }
  const std::int64_t of_sample = stream_shape(shard, ctx.tensor->size()).num_elems() / shard.dim(0);
  const std::int64_t before = ctx.tensor->rank() * shard.num_elems();
  std::vector<ShardPart> parts;
  for (std::int64_t at = 0; at < shard.num_elems();) {
    const std::int64_t first = (before + at) % of_sample, left = shard.num_elems() - at;
    ShardPart part{.offset = at, .sample = (before + at) / of_sample, .first = first};
    part.samples = first == 0 ? std::max<std::int64_t>(1, left / of_sample) : 1;
    part.elems = std::min(of_sample - first, left);
    parts.push_back(part);
    at += part.samples * part.elems;
  }
  return parts;
}

}  // namespace trireme::ops

#include "runtime/ops/dropout.h"

#include "runtime/base/error.h"
#include "runtime/ops/add.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/sequence_shard.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

// The arguments that reproduce a mask.
struct Mask {
  float p = 0.0f;
  DropUnit unit = DropUnit::kElement;
  bool of_stream = false;  // x is a residual stream, which may be a shard
  RngKey rng;
  std::int64_t first_sample = 0;

  void run(const Context& ctx, const Tensor& x, const Tensor& residual, const Tensor& y) const {
    DropoutArgs args{
        .x = x, .residual = residual, .y = y, .p = p, .unit = unit, .rng = rng, .first_sample = first_sample};
    if (!of_stream || !shards_sequence(ctx)) return ctx.run(args);
    for (const ShardPart& part : parts_of(ctx, x.shape())) {
      const auto of = [&](const Tensor& all) { return all.slice(part.offset, {part.samples, part.elems}); };
      args.x = of(x);
      if (residual.defined()) args.residual = of(residual);
      args.y = of(y);
      args.first_sample = first_sample + part.sample;
      args.first_elem = part.first;
      ctx.run(args);
    }
  }
};

struct DropoutBackward {
  ValueId x = kNoValue, residual = kNoValue;
  Mask mask;

  std::string name() const { return mask.unit == DropUnit::kSample ? "drop_path" : "dropout"; }
  std::vector<Tensor> saved() const { return {}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dy = gradients.take(y);
    if (residual != kNoValue) gradients.add(ctx, residual, dy);
    const Tensor dx = dy.unique() ? dy : ctx.empty(dy.shape(), dy.dtype());
    mask.run(ctx, dy, {}, dx);
    gradients.add(ctx, x, dx);
  }
};

Tensor dropped(Context& ctx, const Tensor& input, Mask mask, const Tensor& stream) {
  TRIREME_CHECK(mask.p >= 0.0f && mask.p < 1.0f, "dropout: p = {} is not in [0, 1)", mask.p);
  TRIREME_CHECK(!stream.defined() || stream.shape() == input.shape(), "dropout: residual {} does not fit {}",
                stream.shape().to_string(), input.shape().to_string());
  if (!ctx.training || mask.p == 0.0f) return stream.defined() ? add(ctx, input, stream) : input;
  const DType widest = stream.defined() ? wider(input.dtype(), stream.dtype()) : input.dtype();
  const DType dtype = ctx.precision.dtype_of(OpKind::kDropout, widest);
  const Tensor x = cast(ctx, input, dtype);
  const Tensor residual = stream.defined() ? cast(ctx, stream, dtype) : Tensor();
  mask.rng = ctx.next_rng();
  mask.first_sample = ctx.first_sample;
  const Tensor y = ctx.empty(x.shape(), x.dtype());
  mask.run(ctx, x, residual, y);
  return recorded(ctx, y, DropoutBackward{.x = x.id(), .residual = residual.id(), .mask = mask});
}

}  // namespace

Tensor dropout(Context& ctx, const Tensor& input, float p, const Tensor& residual) {
  return dropped(ctx, input, {.p = p}, residual);
}

Tensor stream_dropout(Context& ctx, const Tensor& input, float p, const Tensor& residual) {
  return dropped(ctx, input, {.p = p, .of_stream = true}, residual);
}

Tensor drop_path(Context& ctx, const Tensor& input, float p, const Tensor& residual) {
  return dropped(ctx, input, {.p = p, .unit = DropUnit::kSample}, residual);
}

}  // namespace trireme::ops

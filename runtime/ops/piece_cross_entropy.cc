#include "runtime/ops/piece_cross_entropy.h"

#include <utility>

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/chunks.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct PiecesBackward {
  std::vector<Tensor> dlogits;  // for a gradient of 1 at the loss
  std::vector<ValueId> logits;

  std::string name() const { return "piece_cross_entropy"; }
  std::vector<Tensor> saved() const { return dlogits; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor seed = gradients.is_unit(y) ? Tensor() : gradients.take(y);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (seed.defined()) ctx.run(ScaleArgs{.x = dlogits[i], .factor = seed});
      gradients.add(ctx, logits[i], std::exchange(dlogits[i], Tensor()));
    }
  }
};

// Combines statistics [count, 3, M] in a tree; the result overwrites the first.
Tensor joined(const Context& ctx, const Tensor& statistics, std::int64_t count) {
  const std::int64_t each = statistics.num_elems() / count, rows = each / 3;
  const auto of = [&](std::int64_t i) { return statistics.slice(i * each, {3, rows}); };
  for (std::int64_t apart = 1; apart < count; apart *= 2) {
    for (std::int64_t left = 0; left < count; left += 2 * apart) {
      ctx.run(JoinLogitStatisticsArgs{.a = of(left), .b = of(left + apart), .out = of(left)});
    }
  }
  return of(0);
}

Tensor statistics_of(Context& ctx, const std::vector<Tensor>& logits, const ConstTensorView& targets,
                     const ChunkRange& own, int chunks) {
  const std::int64_t rows = targets.num_elems(), width = logits.front().shape().dim(-1);
  const Tensor each = ctx.empty({own.count, 3, rows});
  for (int i = 0; i < own.count; ++i) {
    ctx.run(LogitStatisticsArgs{.logits = logits[static_cast<std::size_t>(i)].rows(),
                                .targets = targets,
                                .statistics = each.slice(i * 3 * rows, {3, rows}),
                                .first_class = (own.first + i) * width,
                                .num_classes = chunks * width});
  }
  const Tensor mine = joined(ctx, each, own.count);
  if (ctx.tensor == nullptr) return mine;
  return joined(ctx, ctx.tensor->gather_partials(ctx, mine), chunks / own.count);
}

}  // namespace

Tensor piece_cross_entropy(Context& ctx, std::vector<Tensor> logits, int chunks, const Tensor& targets,
                           float inv_num_targets) {
  const ChunkRange own = own_chunks(ctx, chunks);
  TRIREME_CHECK(logits.size() == static_cast<std::size_t>(own.count),
                "piece_cross_entropy: got logits of {} chunks, but this rank has {}", logits.size(),
                own.count);
  const bool record = ctx.tape != nullptr;
  PiecesBackward backward;
  for (Tensor& piece : logits) {
    TRIREME_CHECK(targets.dtype() == DType::kInt32 && targets.num_elems() == piece.shape().num_rows() &&
                      piece.shape().dim(-1) == logits.front().shape().dim(-1),
                  "piece_cross_entropy: logits {} need {} int32 targets, got {} {}",
                  piece.shape().to_string(), piece.shape().num_rows(), name(targets.dtype()),
                  targets.shape().to_string());
    piece = cast(ctx, piece, ctx.precision.dtype_of(OpKind::kSoftmaxCrossEntropy, piece.dtype()));
    backward.logits.push_back(piece.id());
    TRIREME_CHECK(!record || piece.unique(),
                  "piece_cross_entropy: the caller must own the logits of a chunk exclusively");
  }
  const ConstTensorView flat_targets{targets.address(), DType::kInt32, Shape{targets.num_elems()}};
  const Tensor statistics = statistics_of(ctx, logits, flat_targets, own, chunks);
  const Tensor loss = ctx.empty({});
  for (int i = 0; i < own.count; ++i) {
    Tensor& piece = logits[static_cast<std::size_t>(i)];
    if (i > 0 && !record) break;
    ctx.run(
        PieceCrossEntropyArgs{.logits = piece.rows(),
                              .targets = flat_targets,
                              .statistics = statistics,
                              .loss = i == 0 ? TensorView(loss) : TensorView{},
                              .first_class = (own.first + i) * piece.shape().dim(-1),
                              .inv_num_targets = inv_num_targets,
                              .gradient_scale = record ? ctx.gradient_scale.const_view() : ConstTensorView{},
                              .write_gradient = record});
    if (record) backward.dlogits.push_back(piece.detach());
  }
  logits.clear();
  return recorded(ctx, loss, std::move(backward));
}

}  // namespace trireme::ops

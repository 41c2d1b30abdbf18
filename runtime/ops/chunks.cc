#include "runtime/ops/chunks.h"

#include <memory>
#include <span>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/sequence_shard.h"
#include "runtime/ops/shared_gradients.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

DType linear_dtype(const Context& ctx, DType input) {
  return ctx.precision.dtype_of(OpKind::kLinear, input);
}

Tensor cast_sum(const Context& ctx, const Tensor& sum, DType dtype) {
  if (dtype == DType::kFloat32) return sum;
  const Tensor rounded = ctx.empty(sum.shape(), dtype);
  ctx.run(CastArgs{.x = sum, .y = rounded});
  return rounded;
}

// Adds the gradients of a value that all chunks read in a binary tree. Backward visits the chunks from last
// to first; with a power of two of chunks the tree is the same. Products are computed together, after the
// last. Then the gradients of parameters that all chunks read are complete, too.
class GradientTree final : public ProductCollector {
 public:
  GradientTree(const ChunkRange& range, ValueId input, DType dtype, std::shared_ptr<SharedGradients> shared)
      : range_(range), input_(input), dtype_(dtype), shared_(std::move(shared)) {}

  void collect(Context& ctx, Gradients& gradients, ProductGradient product) override {
    products_.push_back(std::move(product));
    if (std::ssize(products_) < range_.count) return;
    finish(ctx, gradients, sum_of_products(ctx));
  }

  void add(Context& ctx, Gradients& gradients, Tensor partial) {
    TRIREME_CHECK(products_.empty(),
                  "the gradients of a value that chunks read must be all products or all tensors");
    sum_.add(ctx, std::move(partial));
    if (++added_ == range_.count) finish(ctx, gradients, sum_.take());
  }

 private:
  Tensor sum_of_products(Context& ctx) {
    const ProductGradient& first = products_.front();
    const Tensor sum = ctx.empty(first.dy.shape().with_last(first.weight.shape().dim(1)));
    ProductSumArgs args{.d = sum.rows(), .math = first.math, .groups = first.groups};
    for (auto product = products_.rbegin(); product != products_.rend(); ++product) {
      args.products.push_back({.a = product->dy.rows(), .b = product->weight});
    }
    ctx.run(args);
    products_.clear();
    return sum;
  }

  void finish(Context& ctx, Gradients& gradients, Tensor partial) const {
    gradients.add(ctx, input_,
                  cast_sum(ctx, summed_over_ranks(ctx, std::exchange(partial, Tensor())), dtype_));
    if (shared_ != nullptr) shared_->finish(ctx);
  }

  const ChunkRange range_;
  const ValueId input_;
  const DType dtype_;
  const std::shared_ptr<SharedGradients> shared_;  // null: none
  int added_ = 0;
  ChunkSum sum_;
  std::vector<ProductGradient> products_;
};

struct CopyBackward {
  std::shared_ptr<GradientTree> tree;

  std::string name() const { return "copy_to_chunk"; }
  std::vector<Tensor> saved() const { return {}; }
  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    tree->add(ctx, gradients, gradients.take(y));
  }
};

struct SumBackward {
  std::vector<ValueId> partials;

  std::string name() const { return "sum_of_chunks"; }
  std::vector<Tensor> saved() const { return {}; }
  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dy = all_rows(ctx, gradients.take(y));
    for (const ValueId partial : partials) gradients.add(ctx, partial, dy);
  }
};

// `partial`: the sum over this rank's chunks. `partials`: the tape values of their outputs.
Tensor finished(Context& ctx, const Tensor& partial, std::vector<ValueId> partials) {
  const Tensor sum = summed_over_ranks(ctx, partial);
  return recorded(ctx, cast_sum(ctx, sum, linear_dtype(ctx, DType::kFloat32)),
                  SumBackward{.partials = std::move(partials)});
}

// The sum of x W^T + b of layers, [..., N] fp32.
Tensor sum_of_products(const Context& ctx, std::span<const RowsLinear> layers, int groups) {
  const RowsLinear& first = layers.front();
  const Tensor sum = ctx.empty(first.x.shape().with_last(first.weight.shape().dim(0)));
  ProductSumArgs args{.d = sum.rows(), .transpose_b = Transpose::kYes, .math = first.math, .groups = groups};
  if (first.bias.defined()) args.bias = first.bias;
  for (const RowsLinear& layer : layers) args.products.push_back({.a = layer.x.rows(), .b = layer.weight});
  ctx.run(args);
  return sum;
}

// The same with adapters: the product of a chunk and that of its adapter are added first.
Tensor sum_of_adapted(const Context& ctx, std::span<const RowsLinear> layers, int groups) {
  ChunkSum sum;
  for (const RowsLinear& layer : layers) {
    Tensor partial = sum_of_products(ctx, {&layer, 1}, groups);
    const Tensor added = ctx.empty(partial.shape());
    ctx.run(ProductSumArgs{.products = {{.a = layer.adapter.inner.rows(), .b = layer.adapter.b}},
                           .d = added.rows(),
                           .transpose_b = Transpose::kYes,
                           .math = layer.math});
    ctx.run(AddArgs{.a = partial, .b = added, .out = partial});
    sum.add(ctx, std::move(partial));
  }
  return sum.take();
}

Tensor sum_of_layers(Context& ctx, std::vector<RowsLinear> layers, int groups) {
  const RowsLinear& first = layers.front();
  const bool adapts = first.adapter.inner.defined();
  TRIREME_CHECK(first.x.shape().dim(-1) % groups == 0,
                "the {} inputs of a chunk cannot be split into {} equal groups", first.x.shape().dim(-1),
                groups);
  std::vector<ValueId> partials;
  for (const RowsLinear& layer : layers) {
    if (adapts) partials.push_back(layer.adapter.partial);
    partials.push_back(layer.partial);
  }
  const Tensor sum = (adapts ? sum_of_adapted : sum_of_products)(ctx, layers, groups);
  layers.clear();
  return finished(ctx, sum, std::move(partials));
}

}  // namespace

ChunkRange own_chunks(const Context& ctx, int chunks) {
  return ctx.tensor != nullptr ? ctx.tensor->own_chunks(chunks) : ChunkRange{0, chunks};
}

std::vector<Tensor> copy_to_chunks(Context& ctx, const Tensor& input, const ChunkRange& range) {
  TRIREME_CHECK(range.count >= 1 && (range.count & (range.count - 1)) == 0,
                "the number of chunks of a rank must be a power of two, got {}", range.count);
  const Tensor x = cast(ctx, input, linear_dtype(ctx, input.dtype()));
  const bool differentiates = ctx.tape != nullptr;
  const auto tree = differentiates
                        ? std::make_shared<GradientTree>(range, x.id(), x.dtype(), ctx.shared_gradients)
                        : nullptr;
  const auto again = differentiates && shards_sequence(ctx) ? gathered_again(x.detach()) : nullptr;
  const Tensor whole = all_rows(ctx, x.detach());
  std::vector<Tensor> copies;
  for (int i = 0; i < range.count; ++i) {
    copies.push_back(differentiates ? recorded(ctx, whole, CopyBackward{tree}) : whole);
    if (!differentiates) continue;
    ctx.tape->collect_products(copies.back().id(), tree);
    if (again != nullptr) ctx.tape->save_as(copies.back().id(), again);
  }
  return copies;
}

Tensor sum_over_chunks(Context& ctx, const Tensor& input, const ChunkCut& cut,
                       const std::function<ChunkOutput(Tensor input, int chunk)>& compute) {
  const ChunkRange own = own_chunks(ctx, cut.chunks);
  if (ctx.tape != nullptr) ctx.shared_gradients = std::make_shared<SharedGradients>();
  std::vector<Tensor> copies = copy_to_chunks(ctx, input, own);
  std::vector<RowsLinear> layers;
  const std::uint16_t first_op = ctx.rng.op;
  for (int i = 0; i < own.count; ++i) {
    ctx.rng.op = static_cast<std::uint16_t>(first_op + own.first + i);
    const ChunkOutput output =
        compute(std::exchange(copies[static_cast<std::size_t>(i)], Tensor()), own.first + i);
    layers.push_back(rows_linear(ctx, output.x, output.weight, output.bias));
  }
  ctx.rng.op = static_cast<std::uint16_t>(first_op + cut.chunks);
  ctx.shared_gradients = nullptr;
  return sum_of_layers(ctx, std::move(layers), cut.groups);
}

}  // namespace trireme::ops

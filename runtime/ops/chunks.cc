#include "runtime/ops/chunks.h"

#include <memory>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/sequence_shard.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

DType linear_dtype(const Context& ctx, DType input) {
  return ctx.precision.dtype_of(OpKind::kLinear, input);
}

// a + b, in place if one of them is not shared.
Tensor sum_of(const Context& ctx, const Tensor& a, const Tensor& b) {
  const Tensor sum = a.use_count() == 1 ? a : b.use_count() == 1 ? b : ctx.empty(a.shape());
  ctx.run(AddArgs{.a = a, .b = b, .out = sum});
  return sum;
}

// Adds the gradients of a value that all chunks read in a binary tree. Backward visits the chunks from last
// to first; with a power of two of chunks the tree is the same. Products are computed together, after the
// last.
class GradientTree final : public ProductCollector {
 public:
  GradientTree(const ChunkRange& range, ValueId input, DType dtype)
      : range_(range), input_(input), dtype_(dtype) {}

  void collect(Context& ctx, Gradients& gradients, ProductGradient product) override {
    products_.push_back(std::move(product));
    if (std::ssize(products_) < range_.count) return;
    finish(ctx, gradients, sum_of_products(ctx));
  }

  void add(Context& ctx, Gradients& gradients, Tensor partial) {
    TRIREME_CHECK(products_.empty(),
                  "the gradients of a value that chunks read must be all products or all tensors");
    int level = 0;
    while (!stack_.empty() && stack_.back().first == level) {
      partial = sum_of(ctx, std::exchange(partial, Tensor()), std::exchange(stack_.back().second, Tensor()));
      stack_.pop_back();
      ++level;
    }
    stack_.emplace_back(level, std::move(partial));
    if (++added_ < range_.count) return;
    finish(ctx, gradients, std::exchange(stack_.back().second, Tensor()));
    stack_.clear();
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

  void finish(Context& ctx, Gradients& gradients, const Tensor& partial) const {
    const Tensor sum = summed_over_ranks(ctx, partial);
    if (dtype_ == DType::kFloat32) return gradients.add(ctx, input_, sum);
    const Tensor rounded = ctx.empty(sum.shape(), dtype_);
    ctx.run(CastArgs{.x = sum, .y = rounded});
    gradients.add(ctx, input_, rounded);
  }

  const ChunkRange range_;
  const ValueId input_;
  const DType dtype_;
  int added_ = 0;
  std::vector<std::pair<int, Tensor>> stack_;  // levels descend
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
  const DType dtype = linear_dtype(ctx, DType::kFloat32);
  Tensor y = sum;
  if (dtype != DType::kFloat32) {
    y = ctx.empty(sum.shape(), dtype);
    ctx.run(CastArgs{.x = sum, .y = y});
  }
  return recorded(ctx, y, SumBackward{.partials = std::move(partials)});
}

Tensor sum_of_layers(Context& ctx, std::vector<RowsLinear> layers, int groups) {
  const RowsLinear& first = layers.front();
  const Tensor sum = ctx.empty(first.x.shape().with_last(first.weight.shape().dim(0)));
  TRIREME_CHECK(first.x.shape().dim(-1) % groups == 0,
                "the {} inputs of a chunk cannot be split into {} equal groups", first.x.shape().dim(-1),
                groups);
  ProductSumArgs args{.d = sum.rows(), .transpose_b = Transpose::kYes, .math = first.math, .groups = groups};
  if (first.bias.defined()) args.bias = first.bias;
  std::vector<ValueId> partials;
  for (const RowsLinear& layer : layers) {
    args.products.push_back({.a = layer.x.rows(), .b = layer.weight});
    partials.push_back(layer.partial);
  }
  ctx.run(args);
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
  const bool differentiates = ctx.tape != nullptr && x.id() != kNoValue;
  const auto tree = differentiates ? std::make_shared<GradientTree>(range, x.id(), x.dtype()) : nullptr;
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
  return sum_of_layers(ctx, std::move(layers), cut.groups);
}

}  // namespace trireme::ops

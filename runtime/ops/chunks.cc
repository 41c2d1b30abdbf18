#include "runtime/ops/chunks.h"

#include <memory>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/sequence_shard.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

DType linear_dtype(const Context& ctx, DType input) {
  return ctx.precision.dtype_of(OpKind::kLinear, input);
}

// Into memory that nobody else sees.
Tensor sum_of(const Context& ctx, const Tensor& a, const Tensor& b) {
  const Tensor sum = a.use_count() == 1 ? a : b.use_count() == 1 ? b : ctx.empty(a.shape());
  ctx.run(AddArgs{.a = a, .b = b, .out = sum});
  return sum;
}

// Backward comes to the chunks from the last to the first: a tree over a power of two of leaves is the same
// from either side.
class GradientTree {
 public:
  GradientTree(const ChunkRange& range, ValueId input, DType dtype)
      : range_(range), input_(input), dtype_(dtype) {}

  void add(Context& ctx, Gradients& gradients, Tensor partial) {
    int level = 0;
    while (!stack_.empty() && stack_.back().first == level) {
      partial = sum_of(ctx, std::exchange(partial, Tensor()), std::exchange(stack_.back().second, Tensor()));
      stack_.pop_back();
      ++level;
    }
    stack_.emplace_back(level, std::move(partial));
    if (++added_ < range_.count) return;
    const Tensor sum = summed_over_ranks(ctx, std::exchange(stack_.back().second, Tensor()));
    stack_.clear();
    if (dtype_ == DType::kFloat32) return gradients.add(ctx, input_, sum);
    const Tensor rounded = ctx.empty(sum.shape(), dtype_);
    ctx.run(CastArgs{.x = sum, .y = rounded});
    gradients.add(ctx, input_, rounded);
  }

 private:
  const ChunkRange range_;
  const ValueId input_;
  const DType dtype_;
  int added_ = 0;
  std::vector<std::pair<int, Tensor>> stack_;  // levels descend
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

}  // namespace

ChunkRange own_chunks(const Context& ctx, int chunks) {
  return ctx.tensor != nullptr ? ctx.tensor->own_chunks(chunks) : ChunkRange{0, chunks};
}

std::vector<Tensor> copy_to_chunks(Context& ctx, const Tensor& input, const ChunkRange& range) {
  TRIREME_CHECK(range.count >= 1 && (range.count & (range.count - 1)) == 0,
                "a rank computes a power of two of chunks, not {}", range.count);
  const Tensor x = cast(ctx, input, linear_dtype(ctx, input.dtype()));
  const bool differentiates = ctx.tape != nullptr && x.id() != kNoValue;
  const auto tree = differentiates ? std::make_shared<GradientTree>(range, x.id(), x.dtype()) : nullptr;
  const auto again = differentiates && shards_sequence(ctx) ? gathered_again(x.detach()) : nullptr;
  const Tensor whole = all_rows(ctx, x.detach());
  std::vector<Tensor> copies;
  for (int i = 0; i < range.count; ++i) {
    copies.push_back(differentiates ? recorded(ctx, whole, CopyBackward{tree}) : whole);
    if (again != nullptr) ctx.tape->save_as(copies.back().id(), again);
  }
  return copies;
}

void ChunkSum::add(Context& ctx, const Tensor& partial) {
  TRIREME_CHECK(partial.dtype() == DType::kFloat32, "a partial sum of a chunk is fp32, not {}",
                name(partial.dtype()));
  partials_.push_back(partial.id());
  Entry entry{0, partial.detach()};
  while (!stack_.empty() && stack_.back().level == entry.level) {
    entry = {entry.level + 1,
             sum_of(ctx, std::exchange(stack_.back().sum, Tensor()), std::exchange(entry.sum, Tensor()))};
    stack_.pop_back();
  }
  stack_.push_back(std::move(entry));
  ++added_;
}

Tensor ChunkSum::finish(Context& ctx) {
  TRIREME_CHECK(added_ == range_.count && stack_.size() == 1, "{} of {} chunks were added", added_,
                range_.count);
  const Tensor sum = summed_over_ranks(ctx, std::exchange(stack_.back().sum, Tensor()));
  stack_.clear();
  const DType dtype = linear_dtype(ctx, DType::kFloat32);
  Tensor y = sum;
  if (dtype != DType::kFloat32) {
    y = ctx.empty(sum.shape(), dtype);
    ctx.run(CastArgs{.x = sum, .y = y});
  }
  return recorded(ctx, y, SumBackward{.partials = std::move(partials_)});
}

Tensor sum_over_chunks(Context& ctx, const Tensor& input, int chunks,
                       const std::function<Tensor(Tensor input, int chunk)>& compute) {
  const ChunkRange own = own_chunks(ctx, chunks);
  std::vector<Tensor> copies = copy_to_chunks(ctx, input, own);
  ChunkSum sum(own);
  const std::uint16_t first_op = ctx.rng.op;
  for (int i = 0; i < own.count; ++i) {
    ctx.rng.op = static_cast<std::uint16_t>(first_op + own.first + i);
    sum.add(ctx, compute(std::exchange(copies[static_cast<std::size_t>(i)], Tensor()), own.first + i));
  }
  ctx.rng.op = static_cast<std::uint16_t>(first_op + chunks);
  return sum.finish(ctx);
}

}  // namespace trireme::ops

#include "parallel/layout/boundary_shapes.h"

#include <fmt/core.h>

#include "parallel/layout/sample_batch.h"
#include "parallel/layout/shapes_only.h"

namespace trireme {
namespace {

// A tensor axis that shards the sequence, for shapes only: it communicates with no rank.
class ShardShapes final : public TensorAxis {
 public:
  explicit ShardShapes(int ranks) : ranks_(ranks) {}

  int rank() const override { return 0; }
  int size() const override { return ranks_; }
  bool shards_sequence() const override { return true; }
  ChunkRange own_chunks(int chunks) const override { return {.first = 0, .count = chunks / ranks_}; }
  void sum_partials(Context&, const Tensor&) override {}
  Tensor gather_partials(Context& ctx, const Tensor& own) override {
    return ctx.empty({ranks_ * own.num_elems()});
  }
  Tensor scatter_sum(Context& ctx, const Tensor& partial) override {
    return ctx.empty(shard_shape(partial.shape(), ranks_));
  }
  Tensor gather_rows(Context& ctx, const Tensor& shard) override {
    return ctx.empty(stream_shape(shard.shape(), ranks_), shard.dtype());
  }

 private:
  const int ranks_;
};

}  // namespace

std::string TensorSpec::to_string() const {
  return fmt::format("{} {}", name(dtype), shape.to_string());
}

BoundaryShapes::BoundaryShapes(const BlockList& blocks, const Precision& precision, const SampleSpec& sample,
                               int sequence_ranks)
    : blocks_(blocks), precision_(precision), sample_(sample), sequence_ranks_(sequence_ranks) {}

const std::vector<TensorSpec>& BoundaryShapes::of(int unit, const Play& play) {
  auto known = known_.find(play);
  if (known == known_.end()) known = known_.emplace(play, run(play)).first;
  return known->second.at(static_cast<std::size_t>(unit));
}

std::vector<std::vector<TensorSpec>> BoundaryShapes::run(const Play& play) const {
  Context ctx = Context::create({DeviceType::kMeta}, 1);
  ctx.precision = precision_;
  ctx.training = play.training;
  ShardShapes axis(sequence_ranks_);
  if (sequence_ranks_ > 1) ctx.tensor = &axis;
  const Batch batch = make_batch(sample_, play.num_samples,
                                 [&](const Shape& shape, DType dtype) { return ctx.empty(shape, dtype); });
  std::vector<std::vector<TensorSpec>> outputs;
  Activations activations;
  for (std::size_t u = 0; u + 1 < blocks_.size(); ++u) {
    ShapesOnly parameters(ctx, *blocks_[u]);
    StatisticShapes statistics(ctx, *blocks_[u]);
    ctx.parameters = &parameters;
    ctx.statistics = &statistics;
    activations = forward_for_shapes(*blocks_[u], ctx, activations, batch);
    std::vector<TensorSpec>& specs = outputs.emplace_back();
    for (const Tensor& tensor : activations) specs.push_back({tensor.shape(), tensor.dtype()});
  }
  return outputs;
}

}  // namespace trireme

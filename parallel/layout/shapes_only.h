// Blocks on the meta device: parameters and running statistics without values, and a forward that gives
// shapes.
#pragma once

#include "runtime/block.h"

namespace trireme {

class ShapesOnly final : public ParameterResolver {
 public:
  /// `ctx` is on the meta device. `ctx` and `block` outlive this.
  ShapesOnly(const Context& ctx, const Block& block) : ctx_(ctx), block_(block) {}

  Tensor value(ParamRef ref) override {
    return ctx_.empty(block_.parameters().at(static_cast<std::size_t>(ref.index)).shape,
                      ctx_.precision.compute_dtype(), MemoryCategory::kParameters);
  }
  GradientTarget gradient(ParamRef) override { return {}; }
  const Adapter* adapter(ParamRef weight) const override { return block_.adapter(weight); }

 private:
  const Context& ctx_;
  const Block& block_;
};

class StatisticShapes final : public StatisticResolver {
 public:
  /// As ShapesOnly.
  StatisticShapes(const Context& ctx, const Block& block) : ctx_(ctx), block_(block) {}

  Tensor value(StatisticRef ref) override {
    return ctx_.empty(block_.statistics().at(static_cast<std::size_t>(ref.index)).shape, DType::kFloat32,
                      MemoryCategory::kParameters);
  }
  Tensor sample(StatisticRef) override { return {}; }

 private:
  const Context& ctx_;
  const Block& block_;
};

/// Runs the block forward on the meta device. Throws what the block throws; an Error names the block.
Activations forward_for_shapes(const Block& block, Context& ctx, const Activations& input,
                               const Batch& batch);

}  // namespace trireme

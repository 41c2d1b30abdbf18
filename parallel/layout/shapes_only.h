// Parameters and running statistics of a block as far as the meta device looks at them.
#pragma once

#include "runtime/block.h"

namespace trireme {

class ShapesOnly final : public ParameterResolver {
 public:
  /// `ctx` is on the meta device; it and `block` live longer than this.
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

}  // namespace trireme

#include "runtime/deferred_gradients.h"

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Gradient targets of the ops that deferred. None of these parameters may be staged as well.
class DeferredTargets final : public ParameterResolver {
 public:
  DeferredTargets(ParameterResolver& parameters, const std::map<int, Tensor>& staged)
      : parameters_(parameters), staged_(staged) {}

  Tensor value(ParamRef ref) override { return parameters_.value(ref); }
  float center(ParamRef ref) const override { return parameters_.center(ref); }
  GradientTarget gradient(ParamRef ref) override {
    if (const auto staged = staged_.find(ref.index); staged != staged_.end()) {
      throw Error(ErrorCode::kUnsupported,
                  "parameter {} {} of the block is used by an op whose gradient of it runs separately "
                  "(linear, conv2d, embedding) and by one whose gradient does not: such a block "
                  "has no backward in two parts, which the pipeline schedule \"zb-h1\" needs",
                  ref.index, staged->second.shape().to_string());
    }
    return parameters_.gradient(ref);
  }
  const Adapter* adapter(ParamRef weight) const override { return parameters_.adapter(weight); }

 private:
  ParameterResolver& parameters_;
  const std::map<int, Tensor>& staged_;
};

}  // namespace

GradientTarget DeferredGradients::stage(const Context& ctx, ParamRef ref, const Shape& shape) {
  Tensor& tensor = staged_[ref.index];
  if (tensor.defined()) return {tensor, GradientMode::kAccumulate};
  tensor = ctx.empty(shape, DType::kFloat32, MemoryCategory::kGradients);
  return {tensor, GradientMode::kOverwrite};
}

void DeferredGradients::run(const Context& ctx) {
  DeferredTargets targets(*ctx.parameters, staged_);
  Context separate = ctx;
  separate.parameters = &targets;
  for (std::function<void(Context&)>& work : work_) {
    work(separate);
    work = nullptr;
  }
  work_.clear();
  for (const auto& [index, gradient] : staged_) {
    const GradientTarget target = ctx.parameters->gradient({index});
    if (target.mode == GradientMode::kOverwrite) {
      ctx.backend->copy(ctx.exec, target.tensor, gradient);
    } else if (target.mode == GradientMode::kAccumulate) {
      ctx.run(AddArgs{.a = target.tensor, .b = gradient, .out = target.tensor});
    }
  }
  staged_.clear();
}

}  // namespace trireme

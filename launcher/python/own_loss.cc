#include "launcher/python/own_loss.h"

#include <string>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme {
namespace {

struct OwnLossBackward {
  Tensor dlogits;  // for a gradient of 1, times the loss scale
  ValueId logits = kNoValue;

  std::string name() const { return "own_loss"; }
  std::vector<Tensor> saved() const { return {dlogits}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    if (!gradients.is_unit(y)) ctx.run(ScaleArgs{.x = dlogits, .factor = gradients.take(y)});
    gradients.add(ctx, logits, dlogits);
  }
};

Tensor own_loss(Context& ctx, const LossFunction& function, const Tensor& input, const Batch& batch) {
  const Tensor logits = ops::cast(ctx, input, DType::kFloat32);
  const Tensor loss = ctx.zeros({}), dlogits = ctx.empty(logits.shape());
  const DeviceTraits& device = traits(logits.device().type);
  TRIREME_CHECK(device.host_memory, "a loss in Python reads host memory, and the device is {}", device.name);
  if (device.computes) {
    auto* const gradient = static_cast<float*>(dlogits.data());
    *static_cast<float*>(loss.data()) = batch.inv_num_targets * function(logits, batch.targets, dlogits);
    const float scale =
        ctx.gradient_scale.defined() ? *static_cast<const float*>(ctx.gradient_scale.data()) : 1.0f;
    const float factor = scale * batch.inv_num_targets;
    for (std::int64_t i = 0; i < dlogits.num_elems(); ++i) gradient[i] *= factor;
  }
  return recorded(ctx, loss, OwnLossBackward{.dlogits = dlogits, .logits = logits.id()});
}

/// The part of a full name before the parameter's own name; empty: none.
std::string prefix_of(const Block& block) {
  if (block.parameters().empty()) return block.name();
  const std::string& own = block.parameters().front().name;
  const std::string full = block.full_name(block.parameters().front());
  return full == own ? "" : full.substr(0, full.size() - own.size() - 1);
}

class OwnLossBlock final : public Block {
 public:
  OwnLossBlock(std::unique_ptr<Block> inner, LossFunction loss)
      : Block(inner->name(), prefix_of(*inner)), inner_(std::move(inner)), loss_(std::move(loss)) {
    // In the same order, so that the references of the inner block hold.
    for (const ParameterSpec& spec : inner_->parameters()) declare(spec);
    for (const StatisticSpec& spec : inner_->statistics()) declare_statistic(spec);
  }

  std::string variant() const override { return "own_loss " + inner_->variant(); }

  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override {
    Batch without_targets = batch;
    without_targets.targets = Tensor();
    Activations logits = inner_->forward(ctx, input, without_targets);
    if (!batch.targets.defined()) return logits;
    return {own_loss(ctx, loss_, logits.front(), batch)};
  }

 private:
  const std::unique_ptr<Block> inner_;
  const LossFunction loss_;
};

}  // namespace

std::unique_ptr<Block> with_own_loss(std::unique_ptr<Block> last, LossFunction loss) {
  return std::make_unique<OwnLossBlock>(std::move(last), std::move(loss));
}

}  // namespace trireme

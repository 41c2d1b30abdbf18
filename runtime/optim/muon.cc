#include "runtime/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;  // [Note: Newton-Schulz]

Tensor scratch(const Context& ctx, const Shape& shape) {
  return ctx.empty(shape, DType::kFloat32, MemoryCategory::kOptimizer);
}

float scale_of(MuonScale scale, const Shape& matrix) {
  const auto rows = static_cast<double>(matrix[0]), cols = static_cast<double>(matrix[1]);
  if (scale == MuonScale::kMatchRmsAdamW) return static_cast<float>(0.2 * std::sqrt(std::max(rows, cols)));
  return static_cast<float>(std::sqrt(std::max(1.0, rows / cols)));
}

// Divides x [r, c] by its norm. `padded` holds the elements of x, and zeros up to a whole norm block.
void normalize(const Context& ctx, const Tensor& padded) {
  const Tensor partials = scratch(ctx, {padded.num_elems() / kNormBlock}), factor = scratch(ctx, {});
  ctx.run(SquaredNormBlocksArgs{.x = padded, .partials = partials});
  ctx.run(InverseNormArgs{.partials = partials, .factor = factor});
  ctx.run(ScaleArgs{.x = padded, .factor = factor});
}

// Returns `scale` times the orthogonal factor of x. The result is in the memory of x or of one more matrix.
Tensor orthogonal(const Context& ctx, Tensor x, float scale) {
  const bool tall = x.shape()[0] > x.shape()[1];
  const std::int64_t side = std::min(x.shape()[0], x.shape()[1]);
  Tensor next = scratch(ctx, x.shape());
  const Tensor gram = scratch(ctx, {side, side}), inner = scratch(ctx, {side, side}),
               polynomial = scratch(ctx, {side, side});
  for (int round = 0; round < kNewtonSchulzRounds; ++round) {
    ctx.run(MatmulArgs{.a = x,
                       .b = x,
                       .d = gram,
                       .transpose_a = tall ? Transpose::kYes : Transpose::kNo,
                       .transpose_b = tall ? Transpose::kNo : Transpose::kYes});
    ctx.run(ScaleAddIdentityArgs{.x = gram, .y = inner, .scale = kC, .identity = kB});
    ctx.run(MatmulArgs{.a = gram, .b = inner, .d = polynomial});
    const float last = round + 1 == kNewtonSchulzRounds ? scale : 1.0f;
    ctx.run(ScaleAddIdentityArgs{.x = polynomial, .y = polynomial, .scale = last, .identity = last * kA});
    ctx.run(MatmulArgs{.a = tall ? x : polynomial, .b = tall ? polynomial : x, .d = next});
    std::swap(x, next);
  }
  return x;
}

TensorView first_elems(const TensorView& view, std::int64_t count) {
  return view.defined() ? TensorView{view.data, view.dtype, Shape{count}} : view;
}

class Muon final : public Optimizer {
 public:
  Muon(const OptimizerConfig& config, std::unique_ptr<Optimizer> rest)
      : config_(config), rest_(std::move(rest)) {
    TRIREME_CHECK(config.momentum >= 0 && config.momentum < 1, "muon: momentum must be in [0, 1), got {}",
                  config.momentum);
  }

  std::vector<std::string> state_names() const override { return rest_->state_names(); }
  std::vector<std::string> matrix_state_names() const override { return {"momentum"}; }
  bool updates_matrices() const override { return true; }

  void update(const Context& ctx, const UpdateSegment& segment, const UpdateScalars& scalars) const override {
    if (!segment.matrix) return rest_->update(ctx, segment, scalars);
    const Shape& matrix = *segment.matrix;
    const Tensor padded = scratch(ctx, segment.param.shape);
    ctx.run(MuonMomentumArgs{.momentum_buffer = segment.state[0],
                             .update = padded,
                             .grad = segment.grad,
                             .clip = scalars.clip,
                             .skip = scalars.skip,
                             .momentum = config_.momentum,
                             .nesterov = config_.nesterov});
    normalize(ctx, padded);
    const Tensor update = orthogonal(ctx, padded.slice(0, matrix), scale_of(config_.muon_scale, matrix));
    const std::int64_t count = matrix.num_elems();
    ctx.run(SgdArgs{.param = first_elems(segment.param, count),
                    .grad = update.slice(0, Shape{count}),
                    .working = first_elems(segment.working, count),
                    .lr = scalars.lr,
                    .step = scalars.step,
                    .skip = scalars.skip,
                    .weight_decay = segment.decay * config_.weight_decay,
                    .working_center = segment.working_center});
  }

 private:
  const OptimizerConfig config_;
  const std::unique_ptr<Optimizer> rest_;
};

}  // namespace

std::unique_ptr<Optimizer> make_muon(const OptimizerConfig& config, std::unique_ptr<Optimizer> rest) {
  return std::make_unique<Muon>(config, std::move(rest));
}

}  // namespace trireme

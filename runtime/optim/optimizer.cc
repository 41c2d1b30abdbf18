#include "runtime/optim/optimizer.h"

#include "runtime/base/error.h"
#include "runtime/optim/muon.h"

namespace trireme {
namespace {

void check_betas(const char* optimizer, const OptimizerConfig& config) {
  TRIREME_CHECK(config.beta1 >= 0 && config.beta1 < 1 && config.beta2 >= 0 && config.beta2 < 1,
                "{}: betas must be in [0, 1), got {} and {}", optimizer, config.beta1, config.beta2);
}

class AdamW final : public Optimizer {
 public:
  explicit AdamW(const OptimizerConfig& config) : config_(config) {
    check_betas("adamw", config);
    TRIREME_CHECK(config.epsilon > 0, "adamw: epsilon must be positive, got {}", config.epsilon);
  }

  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }

  void update(const Context& ctx, const UpdateSegment& segment, const UpdateScalars& scalars) const override {
    ctx.run(AdamWArgs{.param = segment.param,
                      .exp_avg = segment.state[0],
                      .exp_avg_sq = segment.state[1],
                      .grad = segment.grad,
                      .working = segment.working,
                      .lr = scalars.lr,
                      .clip = scalars.clip,
                      .step = scalars.step,
                      .skip = scalars.skip,
                      .beta1 = config_.beta1,
                      .beta2 = config_.beta2,
                      .epsilon = config_.epsilon,
                      .weight_decay = segment.decay * config_.weight_decay,
                      .working_center = segment.working_center});
  }

 private:
  OptimizerConfig config_;
};

class Lion final : public Optimizer {
 public:
  explicit Lion(const OptimizerConfig& config) : config_(config) { check_betas("lion", config); }

  std::vector<std::string> state_names() const override { return {"exp_avg"}; }

  void update(const Context& ctx, const UpdateSegment& segment, const UpdateScalars& scalars) const override {
    ctx.run(LionArgs{.param = segment.param,
                     .exp_avg = segment.state[0],
                     .grad = segment.grad,
                     .working = segment.working,
                     .lr = scalars.lr,
                     .clip = scalars.clip,
                     .skip = scalars.skip,
                     .beta1 = config_.beta1,
                     .beta2 = config_.beta2,
                     .weight_decay = segment.decay * config_.weight_decay,
                     .working_center = segment.working_center});
  }

 private:
  OptimizerConfig config_;
};

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const OptimizerConfig& config) : config_(config) {
    TRIREME_CHECK(config.momentum >= 0 && config.momentum < 1, "sgd: momentum must be in [0, 1), got {}",
                  config.momentum);
    TRIREME_CHECK(!config.nesterov || config.momentum > 0, "sgd: nesterov needs momentum > 0");
  }

  std::vector<std::string> state_names() const override {
    return config_.momentum > 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
  }

  void update(const Context& ctx, const UpdateSegment& segment, const UpdateScalars& scalars) const override {
    ctx.run(SgdArgs{.param = segment.param,
                    .momentum_buffer = segment.state.empty() ? TensorView{} : segment.state[0],
                    .grad = segment.grad,
                    .working = segment.working,
                    .lr = scalars.lr,
                    .clip = scalars.clip,
                    .step = scalars.step,
                    .skip = scalars.skip,
                    .momentum = config_.momentum,
                    .weight_decay = segment.decay * config_.weight_decay,
                    .working_center = segment.working_center,
                    .nesterov = config_.nesterov});
  }

 private:
  OptimizerConfig config_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config) {
  TRIREME_CHECK(config.weight_decay >= 0, "weight_decay must not be negative, got {}", config.weight_decay);
  switch (config.kind) {
    case OptimizerConfig::Kind::kAdamW:
      return std::make_unique<AdamW>(config);
    case OptimizerConfig::Kind::kSgd:
      return std::make_unique<Sgd>(config);
    case OptimizerConfig::Kind::kLion:
      return std::make_unique<Lion>(config);
    case OptimizerConfig::Kind::kMuon:
      return make_muon(config, std::make_unique<AdamW>(config));
  }
  throw Error(ErrorCode::kInvalidInput, "there is no optimizer {}", static_cast<int>(config.kind));
}

}  // namespace trireme

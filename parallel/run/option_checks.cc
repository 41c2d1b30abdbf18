#include "parallel/run/option_checks.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "runtime/base/error.h"

namespace trireme {
namespace {

void check_update(const EngineOptions& options) {
  TRIREME_CHECK(options.ema >= 0 && options.ema < 1, "EngineOptions::ema must be in [0, 1), got {}",
                options.ema);
  TRIREME_CHECK(options.ema_tau >= 0, "EngineOptions::ema_tau must not be negative, got {}", options.ema_tau);
  TRIREME_CHECK(options.layout.zero <= largest_zero(options),
                "the optimizer updates whole matrices, but with Layout::zero = {} a rank has only a piece of "
                "each: set it to 0",
                static_cast<int>(options.layout.zero));
}

}  // namespace

ZeroStage largest_zero(const EngineOptions& options) {
  return optimizer_of(options)->updates_matrices() ? ZeroStage::kNone : ZeroStage::kParameters;
}

std::unique_ptr<Optimizer> optimizer_of(const EngineOptions& options) {
  if (!options.own_optimizer) return make_optimizer(options.optimizer);
  std::unique_ptr<Optimizer> own = options.own_optimizer();
  TRIREME_CHECK(own != nullptr, "EngineOptions::own_optimizer returned no optimizer");
  for (std::vector<std::string> names : {own->state_names(), own->matrix_state_names()}) {
    std::ranges::sort(names);
    TRIREME_CHECK(std::ranges::adjacent_find(names) == names.end() && !std::ranges::count(names, ""),
                  "EngineOptions::own_optimizer: the names of its state [{}] must be distinct and not empty, "
                  "because checkpoints use them",
                  fmt::join(names, ", "));
  }
  return own;
}

EngineOptions on_hosts(EngineOptions options, const Communicator& world) {
  if (options.hosts.empty()) options.hosts = world.hosts();
  TRIREME_CHECK(options.hosts.size() == static_cast<std::size_t>(world.size()),
                "EngineOptions::hosts has an entry for {} ranks, but the job has {}", options.hosts.size(),
                world.size());
  return options;
}

void check_sequence(const EngineOptions& options, const BlockList& blocks) {
  if (!options.layout.sequence) return;
  for (const auto& block : blocks) {
    TRIREME_CHECK(block->sequence_calls().has_value(),
                  "Layout::sequence: block '{}' does not support sequence parallelism; GPTs, Llamas and "
                  "BERTs with 2 or more tensor chunks do",
                  block->name());
  }
}

const EngineOptions& checked(const EngineOptions& options) {
  check_update(options);
  TRIREME_CHECK(!options.layout.sequence || options.layout.tensor > 1,
                "Layout::sequence needs Layout::tensor = 2 or more, so that ranks can share a sequence");
  if (options.layout.pipeline == 1) {
    TRIREME_CHECK(options.layout.chunks == 1, "Layout::chunks = {} needs Layout::pipeline = 2 or more",
                  options.layout.chunks);
    return options;
  }
  TRIREME_CHECK(
      options.sample,
      "a pipeline needs EngineOptions::sample, because stages must know the shapes that they receive");
  return options;
}

}  // namespace trireme

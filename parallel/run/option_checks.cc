#include "parallel/run/option_checks.h"

#include "runtime/base/error.h"

namespace trireme {
namespace {

void check_update(const EngineOptions& options) {
  TRIREME_CHECK(options.ema >= 0 && options.ema < 1, "EngineOptions::ema must be in [0, 1), got {}",
                options.ema);
  TRIREME_CHECK(options.layout.zero <= largest_zero(options),
                "Muon updates whole matrices, of which a rank has a piece with Layout::zero = {}: set it "
                "to 0",
                static_cast<int>(options.layout.zero));
}

}  // namespace

ZeroStage largest_zero(const EngineOptions& options) {
  return options.optimizer.kind == OptimizerConfig::Kind::kMuon ? ZeroStage::kNone : ZeroStage::kParameters;
}

EngineOptions on_hosts(EngineOptions options, const Communicator& world) {
  if (options.hosts.empty()) options.hosts = world.hosts();
  TRIREME_CHECK(options.hosts.size() == static_cast<std::size_t>(world.size()),
                "EngineOptions::hosts has the hosts of {} ranks; the job has {}", options.hosts.size(),
                world.size());
  return options;
}

void check_sequence(const EngineOptions& options, const BlockList& blocks) {
  if (!options.layout.sequence) return;
  for (const auto& block : blocks) {
    TRIREME_CHECK(block->sequence_calls().has_value(),
                  "Layout::sequence: block '{}' has no rows of a sequence that tensor ranks could share; "
                  "GPTs, Llamas and BERTs in 2 or more tensor chunks have them",
                  block->name());
  }
}

const EngineOptions& checked(const EngineOptions& options) {
  check_update(options);
  TRIREME_CHECK(!options.layout.sequence || options.layout.tensor > 1,
                "Layout::sequence wants Layout::tensor = 2 or more: one rank has nobody to share "
                "a sequence with");
  if (options.layout.pipeline == 1) {
    TRIREME_CHECK(options.layout.chunks == 1,
                  "Layout::chunks = {} wants Layout::pipeline = 2 or more: one "
                  "stage has nothing to interleave",
                  options.layout.chunks);
    return options;
  }
  TRIREME_CHECK(options.sample,
                "a pipeline needs EngineOptions::sample: stages receive what they do not compute");
  return options;
}

}  // namespace trireme

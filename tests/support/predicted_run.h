// A short run on ranks of this process. Every step must use the memory and send the bytes predicted for its
// rank, with a memory limit of what its steps need. Tests of layouts compare the outcomes.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "parallel/run/checkpoint_state.h"
#include "parallel/run/engine.h"
#include "tests/support/exact_memory.h"
#include "tests/support/temporary_folder.h"

namespace trireme::testing {

struct PredictedRun {
  std::shared_ptr<const BlockList> blocks;
  EngineOptions options;  // with a sample
  int ranks = 1;
  std::int64_t steps = 1;
  /// The batches, starting at sample `first`.
  std::function<BatchSource(std::int64_t first)> batches;
  /// The number of targets in the global batch that starts at sample `first`.
  std::function<std::int64_t(std::int64_t first)> targets;
  std::int64_t targets_of_sample = 1;  // maximum
  /// Called for each step of each rank, one at a time; may be empty.
  std::function<void(const StepResult&, std::int64_t targets)> look = {};
};

struct RunOutcome {
  std::uint64_t hash = 0;
  float train_loss = 0, eval_loss = 0;  // train_loss: over all steps
  bool operator==(const RunOutcome&) const = default;
};

/// Trains, evaluates on five samples and saves. `layout` names the run in failures.
inline RunOutcome run_as_predicted(const PredictedRun& run, const std::string& layout) {
  constexpr std::int64_t kFirstOfEval = 777, kEvalSamples = 5;
  RunOutcome outcome;
  const TemporaryFolder folder;
  std::mutex mutex;
  run_local_ranks(run.ranks, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(run.blocks, comm, with_predicted_memory(run.blocks, run.options, *comm));
    const StepPrediction predicted =
        predict_step(run.blocks, run.options, *run.options.sample, run.ranks, comm->rank());
    RunOutcome mine;
    while (engine.steps_done() < run.steps) {
      const std::int64_t first = engine.steps_done() * run.options.global_batch;
      const std::int64_t targets = run.targets(first);
      StepResult result = engine.step(run.batches(first), targets, 1e-2);
      mine.train_loss += result.loss;
      result.memory.peak[MemoryCategory::kWorkspace] = 0;
      const std::lock_guard lock(mutex);
      EXPECT_EQ(result.memory.peak.bytes, predicted.memory.peak.bytes) << layout;
      EXPECT_EQ(result.memory.peak_total, predicted.memory.peak_total) << layout;
      EXPECT_EQ(result.sent_bytes, predicted.sent_bytes) << layout;
      if (run.look) run.look(result, targets);
    }
    mine.hash = engine.state_hash();
    mine.eval_loss =
        engine.evaluate(run.batches(kFirstOfEval), kEvalSamples, kEvalSamples * run.targets_of_sample);
    save_state(engine, folder.path());
    if (comm->rank() == 0) outcome = mine;
  });
  return outcome;
}

}  // namespace trireme::testing

// Records when every rank did what in a step that really runs.
#pragma once

#include <chrono>
#include <vector>

#include "parallel/foresee/timeline.h"
#include "parallel/run/engine.h"

namespace trireme {

/// Times the actions of one step:
///
///   StepTrace trace(engine);                  collective
///   engine.step(...);
///   const Timeline timeline = trace.gather();  collective
///
/// After each action the rank waits for its device, so that the times are those of the work; on a GPU such a
/// step is slower than others, as nothing overlaps. Clocks start at a barrier of all ranks in the
/// constructor.
class StepTrace {
 public:
  /// Replaces the engine's observer of actions until it is destroyed. The engine must not replay recorded
  /// steps (EngineOptions::cuda_graph): those have no actions.
  explicit StepTrace(Engine& engine);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  /// The actions of all ranks, on every rank. What an action that computes spends in waiting for messages is
  /// a span of communication in front of it, as it waits for its inputs first. Throws Error(kInvalidInput)
  /// when not exactly one step was run.
  Timeline gather() const;

 private:
  Engine& engine_;
  const std::chrono::steady_clock::time_point start_;
  struct Moment {
    double ms = 0.0;          // since the clocks started
    double exposed_ms = 0.0;  // MeshGroups::exposed_ms until then
  };
  Moment moment() const;

  std::vector<Moment> moments_;  // the start, and the end of each of this rank's actions
};

}  // namespace trireme

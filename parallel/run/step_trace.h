// Records the start and end of every rank's actions in a real step.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "kernels/backend_marks.h"
#include "parallel/plan/timeline.h"
#include "parallel/run/engine.h"

namespace trireme {

/// Times the actions of one step:
///
///   StepTrace trace(engine);                  collective
///   engine.step(...);
///   const Timeline timeline = trace.gather();  collective
///
/// On a device that runs behind the host, each action leaves a mark on the rank's stream
/// (kernels/backend_marks.h), so that the step runs as usual. Spans are the device's, from one mark to the
/// next; host_spans are the times at which the host enqueued them. Clocks start at a barrier of all ranks in
/// the constructor, with idle devices. A device reaches its first mark some microseconds after its host's
/// clock starts.
class StepTrace {
 public:
  /// Replaces the engine's observer of actions until destroyed. The engine must not replay recorded steps
  /// (EngineOptions::cuda_graph), because these have no actions.
  explicit StepTrace(Engine& engine);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  /// The actions of all ranks, on every rank. On the host, the time that a computing action waits for
  /// messages is a span of communication before it, because it waits for its inputs first; on a device it is
  /// part of the action. Throws Error(kInvalidInput) unless exactly one step was run.
  Timeline gather() const;

 private:
  Engine& engine_;
  const std::unique_ptr<StreamClock> clock_;  // null: the host's clock is sufficient
  const std::chrono::steady_clock::time_point start_;
  struct ActionTimes {
    double end_ms = 0.0, waited_ms = 0.0, host_end_ms = 0.0;
  };
  struct Moment {
    double ms = 0.0;          // of the host, since the clocks started
    double exposed_ms = 0.0;  // MeshGroups::exposed_ms until then
  };
  Moment moment() const;
  /// End of each action on the device, and on the host.
  std::vector<ActionTimes> own_times() const;

  std::vector<Moment> moments_;  // the start, and the end of each of this rank's actions
};

}  // namespace trireme

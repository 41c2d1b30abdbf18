#include "parallel/step_trace.h"

#include <sstream>
#include <string>

#include "parallel/action_span.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::chrono::steady_clock::time_point meet(Communicator& comm) {
  comm.barrier();
  return std::chrono::steady_clock::now();
}

}  // namespace

StepTrace::StepTrace(Engine& engine) : engine_(engine), start_(meet(engine.communicator())) {
  ends_ms_.push_back(0.0);
  engine_.observe_actions([this](std::size_t) {
    const Context& ctx = engine_.context();
    ctx.backend->synchronize(ctx.exec);
    const std::chrono::duration<double, std::milli> since = std::chrono::steady_clock::now() - start_;
    ends_ms_.push_back(since.count());
  });
}

StepTrace::~StepTrace() {
  engine_.observe_actions(nullptr);
}

Timeline StepTrace::gather() const {
  const StepPlan& plan = engine_.plan();
  const Communicator& comm = engine_.communicator();
  const std::size_t num_actions = plan.ranks[static_cast<std::size_t>(comm.rank())].actions.size();
  TRIREME_CHECK(ends_ms_.size() == num_actions + 1, "a trace of one step has {} actions, {} were run",
                num_actions, ends_ms_.size() - 1);
  std::string mine;
  for (const double ms : ends_ms_) mine += fmt::format("{:.6f} ", ms);
  std::vector<std::string> unit_names;
  for (const auto& block : engine_.blocks()) unit_names.push_back(block->name());
  const ActionSpans spans(plan, unit_names);
  Timeline timeline{.num_ranks = comm.size()};
  const std::vector<std::string> all = engine_.communicator().all_gather_strings(mine);
  for (int rank = 0; rank < comm.size(); ++rank) {
    std::istringstream times(all[static_cast<std::size_t>(rank)]);
    double start = 0.0, end = 0.0;
    times >> start;
    for (const Action& action : plan.ranks[static_cast<std::size_t>(rank)].actions) {
      times >> end;
      timeline.spans.push_back(spans.span(rank, action, start, end));
      start = end;
    }
  }
  return timeline;
}

}  // namespace trireme

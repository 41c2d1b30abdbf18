#include "parallel/run/step_trace.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "parallel/foresee/action_span.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

struct ActionTimes {
  double end_ms = 0.0, waited_ms = 0.0;
};

std::chrono::steady_clock::time_point meet(Communicator& comm) {
  comm.barrier();
  return std::chrono::steady_clock::now();
}

void add_spans(Timeline& timeline, TimelineSpan span, double waited_ms) {
  if (span.spent != TimeSpent::kExchange && waited_ms > 0.0) {
    TimelineSpan wait = span;
    wait.spent = TimeSpent::kExchange;
    wait.label = "wait in " + span.label;
    wait.end_ms = span.start_ms = std::min(span.start_ms + waited_ms, span.end_ms);
    timeline.spans.push_back(std::move(wait));
  }
  timeline.spans.push_back(std::move(span));
}

}  // namespace

StepTrace::StepTrace(Engine& engine) : engine_(engine), start_(meet(engine.communicator())) {
  moments_.push_back({.ms = 0.0, .exposed_ms = engine_.groups().exposed_ms()});
  engine_.observe_actions([this](std::size_t) { moments_.push_back(moment()); });
}

StepTrace::~StepTrace() {
  engine_.observe_actions(nullptr);
}

StepTrace::Moment StepTrace::moment() const {
  const Context& ctx = engine_.context();
  ctx.backend->synchronize(ctx.exec);
  const std::chrono::duration<double, std::milli> since = std::chrono::steady_clock::now() - start_;
  return {.ms = since.count(), .exposed_ms = engine_.groups().exposed_ms()};
}

Timeline StepTrace::gather() const {
  const StepPlan& plan = engine_.plan();
  const Communicator& comm = engine_.communicator();
  const std::size_t num_actions = plan.ranks[static_cast<std::size_t>(comm.rank())].actions.size();
  TRIREME_CHECK(moments_.size() == num_actions + 1, "a trace of one step has {} actions, {} were run",
                num_actions, moments_.size() - 1);
  Communicator& world = engine_.communicator();
  const std::size_t most_actions = std::ranges::max(world.all_gather_value(num_actions));
  std::vector<ActionTimes> mine(most_actions);  // all ranks send as many
  for (std::size_t i = 1; i < moments_.size(); ++i) {
    mine[i - 1] = {.end_ms = moments_[i].ms,
                   .waited_ms = moments_[i].exposed_ms - moments_[i - 1].exposed_ms};
  }
  std::vector<std::string> unit_names;
  for (const auto& block : engine_.blocks()) unit_names.push_back(block->name());
  const ActionSpans spans(plan, unit_names);
  Timeline timeline{.num_ranks = comm.size()};
  const auto all = world.all_gather_values(std::span<const ActionTimes>(mine));
  for (int rank = 0; rank < comm.size(); ++rank) {
    const ActionTimes* times = all.data() + static_cast<std::size_t>(rank) * most_actions;
    double start = 0.0;
    for (const Action& action : plan.ranks[static_cast<std::size_t>(rank)].actions) {
      add_spans(timeline, spans.span(rank, action, start, times->end_ms), times->waited_ms);
      start = times++->end_ms;
    }
  }
  return timeline;
}

}  // namespace trireme

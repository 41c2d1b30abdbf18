#include "parallel/run/step_trace.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "parallel/plan/action_span.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::unique_ptr<StreamClock> make_clock(const Context& ctx) {
  const DeviceMarks* marks = device_marks_of(*ctx.backend, ctx.exec);
  return marks == nullptr ? nullptr : marks->make_clock(ctx.exec);
}

std::chrono::steady_clock::time_point meet(const Context& ctx, Communicator& comm) {
  ctx.backend->synchronize(ctx.exec);
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

StepTrace::StepTrace(Engine& engine)
    : engine_(engine),
      clock_(make_clock(engine.context())),
      start_(meet(engine.context(), engine.communicator())) {
  if (clock_) clock_->mark();
  moments_.push_back({.ms = 0.0, .exposed_ms = engine_.groups().exposed_ms()});
  engine_.observe_actions([this](std::size_t) {
    if (clock_) clock_->mark();
    moments_.push_back(moment());
  });
}

StepTrace::~StepTrace() {
  engine_.observe_actions(nullptr);
}

StepTrace::Moment StepTrace::moment() const {
  const std::chrono::duration<double, std::milli> since = std::chrono::steady_clock::now() - start_;
  return {.ms = since.count(), .exposed_ms = engine_.groups().exposed_ms()};
}

std::vector<StepTrace::ActionTimes> StepTrace::own_times() const {
  std::vector<ActionTimes> times;
  for (std::size_t i = 1; i < moments_.size(); ++i) {
    times.push_back({.end_ms = moments_[i].ms,
                     .waited_ms = moments_[i].exposed_ms - moments_[i - 1].exposed_ms,
                     .host_end_ms = moments_[i].ms});
  }
  if (!clock_) return times;
  double ms = 0.0;
  const std::vector<double> passed = clock_->read_ms();
  for (std::size_t i = 0; i < times.size(); ++i) {
    times[i].end_ms = ms += passed.at(i);
    times[i].waited_ms = 0.0;
  }
  return times;
}

Timeline StepTrace::gather() const {
  const StepPlan& plan = engine_.plan();
  const Communicator& comm = engine_.communicator();
  const std::size_t num_actions = plan.ranks[static_cast<std::size_t>(comm.rank())].actions.size();
  TRIREME_CHECK(moments_.size() == num_actions + 1,
                "a trace of one step must have {} actions, but {} were run", num_actions,
                moments_.size() - 1);
  Communicator& world = engine_.communicator();
  const std::size_t most_actions = std::ranges::max(world.all_gather_value(num_actions));
  std::vector<ActionTimes> mine = own_times();
  mine.resize(most_actions);  // all ranks send the same number
  std::vector<std::string> unit_names;
  for (const auto& block : engine_.blocks()) unit_names.push_back(block->name());
  const ActionSpans spans(plan, unit_names);
  Timeline timeline{.num_ranks = comm.size()};
  const auto all = world.all_gather_values(std::span<const ActionTimes>(mine));
  for (int rank = 0; rank < comm.size(); ++rank) {
    const ActionTimes* times = all.data() + static_cast<std::size_t>(rank) * most_actions;
    ActionTimes before;
    for (const Action& action : plan.ranks[static_cast<std::size_t>(rank)].actions) {
      add_spans(timeline, spans.span(rank, action, before.end_ms, times->end_ms), times->waited_ms);
      if (clock_) {
        timeline.host_spans.push_back(spans.span(rank, action, before.host_end_ms, times->host_end_ms));
      }
      before = *times++;
    }
  }
  return timeline;
}

}  // namespace trireme

#include "parallel/foresee/pipeline_simulate.h"

#include <algorithm>
#include <optional>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using Kind = PipelineTask::Kind;

class Player {
 public:
  Player(const std::vector<std::vector<PipelineTask>>& tasks, const PipelineTimes& times)
      : tasks_(tasks), times_(times), num_ranks_(tasks.size()), num_stages_(times.stages.size()) {
    for (const auto& list : tasks) {
      for (const PipelineTask& task : list)
        num_micro_batches_ = std::max(num_micro_batches_, task.micro_batch + 1);
    }
    states_.resize(num_stages_ * static_cast<std::size_t>(num_micro_batches_));
    now_.resize(num_ranks_);
    alive_.resize(num_ranks_);
    result_.ranks.resize(num_ranks_);
    result_.alive.resize(num_ranks_);
  }

  PipelineSimulation play() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t rank = 0; rank < num_ranks_; ++rank) {
        while (!done(rank) && run_next(rank)) moved = true;
      }
    }
    check_whole();
    result_.makespan_ms = num_ranks_ == 0 ? 0.0 : *std::ranges::max_element(now_);
    for (const auto& list : result_.ranks) {
      double busy = 0.0;
      for (const TaskTime& task : list) busy += task.end_ms - task.start_ms;
      result_.idle_ms.push_back(result_.makespan_ms - busy);
    }
    return std::move(result_);
  }

 private:
  // When the parts of a micro-batch on a stage were done.
  struct State {
    std::optional<double> forward, backward_input, backward_weight;
  };

  bool done(std::size_t rank) const { return result_.ranks[rank].size() == tasks_[rank].size(); }
  const PipelineTask& next(std::size_t rank) const { return tasks_[rank][result_.ranks[rank].size()]; }
  State& state(int stage, int micro_batch) {
    return states_[static_cast<std::size_t>(stage) * static_cast<std::size_t>(num_micro_batches_) +
                   static_cast<std::size_t>(micro_batch)];
  }
  bool is_last_stage(int stage) const { return stage == static_cast<int>(num_stages_) - 1; }
  double arrival(const std::optional<double>& sent) const {
    return *sent + (num_ranks_ > 1 ? times_.send_ms : 0.0);
  }

  void check_place(std::size_t rank, const PipelineTask& task) {
    const bool in_range =
        task.chunk >= 0 && task.chunk < static_cast<int>(num_stages_) && task.micro_batch >= 0;
    TRIREME_CHECK(in_range && static_cast<std::size_t>(task.chunk) % num_ranks_ == rank,
                  "schedule: {} does not belong on pipeline rank {} of {} ({} stages)", to_string(task), rank,
                  num_ranks_, num_stages_);
  }

  /// When what the task needs from its stage's neighbour and from its own stage is there; empty: not yet.
  std::optional<double> ready(const PipelineTask& task) {
    const State& own = state(task.chunk, task.micro_batch);
    if (task.kind == Kind::kForward) {
      if (task.chunk == 0) return 0.0;
      const State& before = state(task.chunk - 1, task.micro_batch);
      return before.forward ? std::optional(arrival(before.forward)) : std::nullopt;
    }
    if (task.kind == Kind::kBackwardWeight) return own.backward_input;
    if (!own.forward || is_last_stage(task.chunk)) return own.forward;
    const State& after = state(task.chunk + 1, task.micro_batch);
    return after.backward_input ? std::optional(arrival(after.backward_input)) : std::nullopt;
  }

  static void finish(const PipelineTask& task, std::optional<double>& part, double end) {
    TRIREME_CHECK(!part, "schedule: {} runs twice", to_string(task));
    part = end;
  }

  double duration(const PipelineTask& task) const {
    const StageTimes& times = times_.stages[static_cast<std::size_t>(task.chunk)];
    switch (task.kind) {
      case Kind::kForward:
        return times.forward_ms;
      case Kind::kBackward:
        return times.backward_input_ms + times.backward_weight_ms;
      case Kind::kBackwardInput:
        return times.backward_input_ms;
      case Kind::kBackwardWeight:
        return times.backward_weight_ms;
    }
    return 0.0;
  }

  bool run_next(std::size_t rank) {
    const PipelineTask& task = next(rank);
    check_place(rank, task);
    const std::optional<double> at = ready(task);
    if (!at) return false;
    const double start = std::max(*at, now_[rank]);
    const double end = start + duration(task);
    State& own = state(task.chunk, task.micro_batch);
    if (task.kind == Kind::kForward) {
      finish(task, own.forward, end);
      result_.alive[rank] = std::max(result_.alive[rank], ++alive_[rank]);
    }
    if (task.kind == Kind::kBackward || task.kind == Kind::kBackwardInput)
      finish(task, own.backward_input, end);
    if (task.kind == Kind::kBackward || task.kind == Kind::kBackwardWeight) {
      finish(task, own.backward_weight, end);
      --alive_[rank];
    }
    now_[rank] = end;
    result_.ranks[rank].push_back({task, start, end});
    return true;
  }

  void check_whole() {
    std::string waiting;
    for (std::size_t rank = 0; rank < num_ranks_; ++rank) {
      if (done(rank)) continue;
      waiting +=
          fmt::format("{}rank {} waits to run {}", waiting.empty() ? "" : "; ", rank, to_string(next(rank)));
    }
    TRIREME_CHECK(waiting.empty(), "the schedule blocks: {}", waiting);
    for (int stage = 0; stage < static_cast<int>(num_stages_); ++stage) {
      for (int i = 0; i < num_micro_batches_; ++i) {
        TRIREME_CHECK(state(stage, i).backward_weight,
                      "schedule: stage {} does not run micro-batch {} forward and wholly backward", stage, i);
      }
    }
  }

  const std::vector<std::vector<PipelineTask>>& tasks_;
  const PipelineTimes& times_;
  const std::size_t num_ranks_, num_stages_;
  int num_micro_batches_ = 0;
  std::vector<State> states_;  // [stage][micro-batch]
  std::vector<double> now_;    // [rank]
  std::vector<int> alive_;     // [rank]
  PipelineSimulation result_;
};

TimelineSpan span_of(int rank, int num_ranks, const TaskTime& time) {
  const auto kind = time.task.kind == Kind::kForward          ? TimelineSpan::Kind::kForward
                    : time.task.kind == Kind::kBackwardWeight ? TimelineSpan::Kind::kBackwardWeight
                                                              : TimelineSpan::Kind::kBackward;
  return {.rank = rank,
          .kind = kind,
          .chunk = time.task.chunk / num_ranks,
          .micro_batch = time.task.micro_batch,
          .label = to_string(time.task),
          .start_ms = time.start_ms,
          .end_ms = time.end_ms};
}

}  // namespace

double PipelineSimulation::bubble_share() const {
  const double whole = makespan_ms * static_cast<double>(ranks.size());
  double idle = 0.0;
  for (const double ms : idle_ms) idle += ms;
  return whole > 0.0 ? idle / whole : 0.0;
}

PipelineSimulation simulate_pipeline(const std::vector<std::vector<PipelineTask>>& tasks,
                                     const PipelineTimes& times) {
  return Player(tasks, times).play();
}

Timeline to_timeline(const PipelineSimulation& simulation, const PipelineTimes& times) {
  Timeline timeline{.num_ranks = static_cast<int>(simulation.ranks.size()), .spans = {}};
  const int last_stage = static_cast<int>(times.stages.size()) - 1;
  for (int rank = 0; rank < timeline.num_ranks; ++rank) {
    for (const TaskTime& time : simulation.ranks[static_cast<std::size_t>(rank)]) {
      timeline.spans.push_back(span_of(rank, timeline.num_ranks, time));
      const bool forward = time.task.kind == Kind::kForward;
      const bool sends = forward ? time.task.chunk < last_stage
                                 : time.task.kind != Kind::kBackwardWeight && time.task.chunk > 0;
      if (!sends || times.send_ms <= 0.0 || timeline.num_ranks == 1) continue;
      TimelineSpan send = timeline.spans.back();
      send.kind = TimelineSpan::Kind::kCommunication;
      send.label = fmt::format("Send{} stage {} micro-batch {}", forward ? "Activation" : "Gradient",
                               time.task.chunk, time.task.micro_batch);
      send.start_ms = time.end_ms;
      send.end_ms = time.end_ms + times.send_ms;
      timeline.spans.push_back(std::move(send));
    }
  }
  return timeline;
}

}  // namespace trireme

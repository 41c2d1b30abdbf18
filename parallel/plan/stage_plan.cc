#include "parallel/plan/stage_plan.h"

#include <algorithm>
#include <utility>

#include "parallel/plan/step_end.h"

namespace trireme {
namespace {

using enum ActionKind;
using TaskKind = PipelineTask::Kind;

// One run of a unit, with its task's messages before and after it.
struct UnitRun {
  Action action;
  std::vector<Action> before, after;
};

// Joins the two parts of a backward where they follow each other and nothing waits for the first part. The
// joined backward keeps less.
StageTasks with_joined_backwards(StageTasks stage) {
  std::vector<PipelineTask> tasks;
  for (const PipelineTask& task : stage.tasks) {
    const PipelineTask first{TaskKind::kBackwardInput, 0, task.micro_batch};
    if (task.kind == TaskKind::kBackwardWeight && task.chunk == 0 && !tasks.empty() &&
        tasks.back() == first) {
      tasks.back().kind = TaskKind::kBackward;
    } else {
      tasks.push_back(task);
    }
  }
  stage.tasks = std::move(tasks);
  return stage;
}

// The runs of units of a stage, in order, without collectives.
class Compute {
 public:
  Compute(const StageTasks& tasks, const PlanOptions& options)
      : tasks_(with_joined_backwards(tasks)), options_(options), stages_(options.stages) {}

  std::vector<UnitRun> runs() {
    for (std::size_t i = 0; i < tasks_.tasks.size(); ++i) {
      const std::size_t first = runs_.size();
      run_task(i);
      UnitRun& start = runs_[first];
      if (i == 0) ask_for(start, i);
      if (i + 1 < tasks_.tasks.size()) ask_for(start, i + 1);
    }
    return std::move(runs_);
  }

 private:
  void run_task(std::size_t i) {
    const PipelineTask& task = tasks_.tasks[i];
    const bool last_chunk = task.chunk == stages_.num_chunks() - 1;
    if (task.kind == TaskKind::kForward) {
      forward(i);
      if (!last_chunk) {
        send({.kind = kSendActivation, .unit = stages_.end_unit(task.chunk) - 1}, task, task.chunk + 1);
      }
      return;
    }
    if (task.kind == TaskKind::kBackwardWeight) return backward_weight(task);
    backward(i);
    if (task.chunk > 0) {
      send({.kind = kSendGradient, .unit = stages_.first_unit(task.chunk)}, task, task.chunk - 1);
    }
  }

  void send(Action action, const PipelineTask& task, int to_chunk) {
    action.micro_batch = task.micro_batch;
    action.peer = stages_.stage_of_chunk(to_chunk);
    runs_.back().after.push_back(action);
  }

  // Adds the receive that task `i` waits for.
  void ask_for(UnitRun& at, std::size_t i) const {
    const PipelineTask& task = tasks_.tasks[i];
    if (task.kind == TaskKind::kBackwardWeight) return;
    const bool forward = task.kind == TaskKind::kForward;
    if (forward ? task.chunk == 0 : task.chunk == stages_.num_chunks() - 1) return;
    at.before.push_back({.kind = forward ? kRecvActivation : kRecvGradient,
                         .unit = forward ? stages_.first_unit(task.chunk) : stages_.end_unit(task.chunk) - 1,
                         .micro_batch = task.micro_batch,
                         .peer = stages_.stage_of_chunk(forward ? task.chunk - 1 : task.chunk + 1)});
  }

  // True if the chunk's backward directly follows its forward: then its last segment is kept.
  bool meets_backward(std::size_t forward) const {
    if (forward + 1 >= tasks_.tasks.size()) return false;
    const PipelineTask &task = tasks_.tasks[forward], &next = tasks_.tasks[forward + 1];
    return task.kind == TaskKind::kForward && next.kind != TaskKind::kForward && next.chunk == task.chunk &&
           next.micro_batch == task.micro_batch;
  }

  // The first unit of a chunk whose forward keeps its tape.
  int tape_from(std::size_t forward) const {
    const int chunk = tasks_.tasks[forward].chunk;
    const int k = options_.layout.recompute_every;
    if (k == 0) return stages_.first_unit(chunk);
    return meets_backward(forward) ? last_segment(chunk) : stages_.end_unit(chunk);
  }

  int last_segment(int chunk) const {
    const int first = stages_.first_unit(chunk), k = options_.layout.recompute_every;
    return k == 0 ? first : first + (stages_.end_unit(chunk) - 1 - first) / k * k;
  }

  void forward(std::size_t i) {
    const PipelineTask& task = tasks_.tasks[i];
    const int first = stages_.first_unit(task.chunk), k = options_.layout.recompute_every;
    const int tape = tasks_.training ? tape_from(i) : stages_.end_unit(task.chunk);
    for (int u = first; u < stages_.end_unit(task.chunk); ++u) {
      const bool starts_segment = tasks_.training && k > 0 && (u - first) % k == 0;
      run(kForward, u, task, u >= tape ? Keep::kTape : starts_segment ? Keep::kInput : Keep::kNothing);
    }
  }

  void backward(std::size_t i) {
    const PipelineTask& task = tasks_.tasks[i];
    const int start = stages_.first_unit(task.chunk), k = options_.layout.recompute_every;
    const bool met = i > 0 && meets_backward(i - 1);
    const ActionKind kind = task.kind == TaskKind::kBackward ? kBackward : kBackwardInput;
    for (int first = last_segment(task.chunk); first >= start; first -= k) {
      const bool is_last = first == last_segment(task.chunk);
      const int end = is_last ? stages_.end_unit(task.chunk) : first + k;
      if (k > 0 && !(is_last && met)) {
        for (int u = first; u < end; ++u) run(kRecompute, u, task);
      }
      for (int u = end - 1; u >= first; --u) run(kind, u, task);
      if (k == 0) break;
    }
  }

  void backward_weight(const PipelineTask& task) {
    for (int u = stages_.end_unit(task.chunk) - 1; u >= stages_.first_unit(task.chunk); --u) {
      run(kBackwardWeight, u, task);
    }
  }

  void run(ActionKind kind, int unit, const PipelineTask& task, Keep keep = Keep::kTape) {
    UnitRun& added = runs_.emplace_back();
    added.action = {.kind = kind, .unit = unit, .micro_batch = task.micro_batch, .keep = keep};
  }

  const StageTasks tasks_;
  const PlanOptions& options_;
  const StageMap& stages_;
  std::vector<UnitRun> runs_;
};

// Positions in the runs at which a unit's parameters are needed. BackwardWeight needs none.
struct Residency {
  int unit = 0;
  std::size_t gather_at = 0, first_use = 0, last_use = 0;
};

std::vector<Residency> residencies(const std::vector<UnitRun>& runs, const PlanOptions& options) {
  const auto num_units = static_cast<std::size_t>(options.stages.num_units());
  const auto depth = static_cast<std::size_t>(options.layout.prefetch_depth);
  std::vector<Residency> all;
  std::vector<int> open(num_units, -1);  // index of an open residency: a recompute waits for its backward
  std::vector<std::size_t> free_from(num_units, 0);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Action& action = runs[i].action;
    const auto unit = static_cast<std::size_t>(action.unit);
    if (action.kind == kBackwardWeight) continue;
    if (open[unit] >= 0 && (options.layout.keep_gathered || traits(action.kind).consumes_tape)) {
      all[static_cast<std::size_t>(open[unit])].last_use = i;
      if (!options.layout.keep_gathered) open[unit] = -1;
    } else {
      if (options.layout.keep_gathered || action.kind == kRecompute)
        open[unit] = static_cast<int>(all.size());
      all.push_back({action.unit, std::max(i >= depth ? i - depth : 0, free_from[unit]), i, i});
    }
    free_from[unit] = i + 1;
  }
  return all;
}

// Gathers gradients after the last backward of units, so that each gather overlaps the next unit's backward,
// and with two levels also the backward after that.
class GradGathers {
 public:
  explicit GradGathers(const PlanOptions& options)
      : over_hosts_(options.gather_gradients),
        in_host_(options.data_ranks_per_host > 1 && !sharded_by(options.layout.zero).optimizer) {}

  /// `next`: the unit whose sum starts now; -1: none.
  void advance(std::vector<Action>& actions, int next) {
    int gathered = summed_;  // over the hosts
    if (over_hosts_ && summed_ >= 0) actions.push_back({.kind = kGatherGrad, .unit = summed_});
    if (over_hosts_) gathered = std::exchange(gathered_, summed_);
    if (in_host_ && gathered >= 0) actions.push_back({.kind = kGatherGradInHost, .unit = gathered});
    summed_ = next;
  }
  void finish(std::vector<Action>& actions) {
    for (int left = 0; left < 2; ++left) advance(actions, -1);
  }

 private:
  const bool over_hosts_, in_host_;
  int summed_ = -1;    // the unit whose pieces are in flight
  int gathered_ = -1;  // the unit whose pieces are gathered over the hosts
};

}  // namespace

RankPlan plan_stage(const StageTasks& tasks, const PlanOptions& options) {
  const std::vector<UnitRun> runs = Compute(tasks, options).runs();
  std::vector<std::vector<int>> gathers(runs.size()), in_host(runs.size()), releases(runs.size());
  if (sharded_by(options.layout.zero).parameters) {
    for (const Residency& r : residencies(runs, options)) {
      gathers[r.gather_at].push_back(r.unit);
      if (options.data_ranks_per_host > 1) in_host[r.first_use].push_back(r.unit);
      releases[r.last_use].push_back(r.unit);
    }
  }
  RankPlan plan;
  const auto append = [&](const std::vector<Action>& more) {
    plan.actions.insert(plan.actions.end(), more.begin(), more.end());
  };
  GradGathers grad_gathers(options);
  const auto reduce_grad = [&](int unit, int micro_batch) {
    if (options.data_ranks_per_host > 1) {
      plan.actions.push_back({.kind = kReduceGradInHost, .unit = unit, .micro_batch = micro_batch});
    }
    plan.actions.push_back({.kind = kReduceGrad, .unit = unit, .micro_batch = micro_batch});
  };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Action& action = runs[i].action;
    for (const int unit : gathers[i]) plan.actions.push_back({.kind = kGather, .unit = unit});
    for (const int unit : in_host[i]) plan.actions.push_back({.kind = kGatherInHost, .unit = unit});
    append(runs[i].before);
    plan.actions.push_back(action);
    if (!options.tensor_calls.empty()) {
      const TensorCalls& block = options.tensor_calls[static_cast<std::size_t>(action.unit)];
      for (const TensorCall call : calls_of(action, block)) {
        plan.actions.push_back(
            {.kind = action_of(call), .unit = action.unit, .micro_batch = action.micro_batch});
      }
    }
    append(runs[i].after);
    for (const int unit : releases[i]) plan.actions.push_back({.kind = kRelease, .unit = unit});
    if (!traits(action.kind).sums_gradient) continue;
    if (options.layout.reduces_each_micro_batch()) {
      reduce_grad(action.unit, action.micro_batch);
    } else if (action.micro_batch + 1 == tasks.micro_batches) {
      const bool later = options.gather_gradients && gathers_at_end(options, action.unit);
      grad_gathers.advance(plan.actions, later ? -1 : action.unit);
      reduce_grad(action.unit, -1);
    }
  }
  grad_gathers.finish(plan.actions);
  return plan;
}

}  // namespace trireme

#include "parallel/planner.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using enum ActionKind;

// The runs of units of a step, in order, before anything is said about communication.
class Compute {
 public:
  Compute(int num_units, const PlanOptions& options) : num_units_(num_units), options_(options) {}

  void train(int micro_batch) {
    const int k = options_.recompute_every;
    const int last_segment =
        k > 0 ? (num_units_ - 1) / k * k : 0;  // first unit of the segment that is not recomputed
    for (int u = 0; u < num_units_; ++u) {
      const Keep keep = u >= last_segment ? Keep::kTape : u % k == 0 ? Keep::kInput : Keep::kNothing;
      run(kForward, u, micro_batch, keep);
    }
    for (int first = last_segment; first >= 0; first -= k) {
      const int end = first == last_segment ? num_units_ : first + k;
      if (first != last_segment) {
        for (int u = first; u < end; ++u) run(kRecompute, u, micro_batch);
      }
      for (int u = end - 1; u >= first; --u) run(kBackward, u, micro_batch);
      if (k == 0) break;
    }
  }

  void evaluate(int micro_batch) {
    for (int u = 0; u < num_units_; ++u) run(kForward, u, micro_batch, Keep::kNothing);
  }

  const std::vector<Action>& actions() const { return actions_; }

 private:
  void run(ActionKind kind, int unit, int micro_batch, Keep keep = Keep::kTape) {
    actions_.push_back({.kind = kind, .unit = unit, .micro_batch = micro_batch, .keep = keep});
  }

  int num_units_;
  PlanOptions options_;
  std::vector<Action> actions_;
};

// When a unit's parameters are needed: positions in the compute actions.
struct Residency {
  int unit = 0;
  std::size_t gather_at = 0, first_use = 0, last_use = 0;
};

std::vector<Residency> residencies(const std::vector<Action>& compute, int num_units, int prefetch_depth) {
  std::vector<Residency> all;
  std::vector<int> open(static_cast<std::size_t>(num_units), -1);  // a recompute that waits for its backward
  std::vector<std::size_t> free_from(static_cast<std::size_t>(num_units), 0);
  for (std::size_t i = 0; i < compute.size(); ++i) {
    const auto unit = static_cast<std::size_t>(compute[i].unit);
    if (compute[i].kind == kBackward && open[unit] >= 0) {
      all[static_cast<std::size_t>(open[unit])].last_use = i;
      open[unit] = -1;
    } else {
      const std::size_t ahead =
          i >= static_cast<std::size_t>(prefetch_depth) ? i - static_cast<std::size_t>(prefetch_depth) : 0;
      if (compute[i].kind == kRecompute) open[unit] = static_cast<int>(all.size());
      all.push_back({compute[i].unit, std::max(ahead, free_from[unit]), i, i});
    }
    free_from[unit] = i + 1;
  }
  return all;
}

// Writes gathers, releases and reductions around the compute actions.
RankPlan with_communication(const std::vector<Action>& compute, int num_units, int micro_batches,
                            const PlanOptions& options) {
  std::vector<std::vector<int>> gathers(compute.size()), releases(compute.size());
  if (options.shard_parameters) {
    for (const Residency& r : residencies(compute, num_units, options.prefetch_depth)) {
      gathers[r.gather_at].push_back(r.unit);
      releases[r.last_use].push_back(r.unit);
    }
  }
  RankPlan plan;
  for (std::size_t i = 0; i < compute.size(); ++i) {
    const Action& action = compute[i];
    for (const int unit : gathers[i]) plan.actions.push_back({.kind = kGather, .unit = unit});
    plan.actions.push_back(action);
    for (const int unit : releases[i]) plan.actions.push_back({.kind = kRelease, .unit = unit});
    if (action.kind != kBackward) continue;
    if (options.reduce_each_micro_batch) {
      plan.actions.push_back({.kind = kReduceGrad, .unit = action.unit, .micro_batch = action.micro_batch});
    } else if (action.micro_batch + 1 == micro_batches) {
      plan.actions.push_back({.kind = kReduceGrad, .unit = action.unit});
    }
  }
  return plan;
}

}  // namespace

StepPlan plan_training_step(int num_units, const Mesh& mesh, const BatchLayout& batch,
                            const PlanOptions& options) {
  batch.check();
  TRIREME_CHECK(num_units >= 1, "a model needs at least one block");
  TRIREME_CHECK(batch.data_ranks == mesh.data, "the batch is laid out for {} data ranks, the mesh has {}",
                batch.data_ranks, mesh.data);
  TRIREME_CHECK(options.recompute_every >= 0 && options.prefetch_depth >= 0,
                "recompute_every {} and prefetch_depth {} must not be negative", options.recompute_every,
                options.prefetch_depth);
  TRIREME_CHECK(
      options.recompute_every < std::max(num_units, 2),
      "parallel.recompute_every = {} recomputes nothing: a segment of {} blocks is all of the model's "
      "{}, and the last segment is kept; use {} or less, or 0 to keep everything",
      options.recompute_every, options.recompute_every, num_units, num_units - 1);
  const int micro_batches = static_cast<int>(batch.per_rank());
  Compute compute(num_units, options);
  for (int m = 0; m < micro_batches; ++m) compute.train(m);
  RankPlan plan = with_communication(compute.actions(), num_units, micro_batches, options);
  for (const ActionKind kind : {kReduceLoss, kGradNorm, kOptimStep}) plan.actions.push_back({.kind = kind});
  return {.mesh = mesh,
          .num_units = num_units,
          .sharded_parameters = options.shard_parameters,
          .ranks = std::vector<RankPlan>(static_cast<std::size_t>(mesh.num_ranks()), plan)};
}

StepPlan plan_evaluation(int num_units, const Mesh& mesh, const BatchLayout& batch,
                         const PlanOptions& options) {
  StepPlan plan{.mesh = mesh, .num_units = num_units, .sharded_parameters = options.shard_parameters};
  const int rounds = static_cast<int>(batch.per_rank());
  Compute compute(num_units, options);
  for (int m = 0; m < rounds; ++m) compute.evaluate(m);
  const RankPlan full = with_communication(compute.actions(), num_units, rounds, options);
  for (int r = 0; r < mesh.num_ranks(); ++r) {
    RankPlan rank;
    for (const Action& action : full.actions) {
      const bool idle =
          action.kind == kForward &&
          batch.global_micro_batch(mesh.data_rank(r), action.micro_batch) >= batch.num_micro_batches();
      if (!idle) rank.actions.push_back(action);
    }
    rank.actions.push_back({.kind = kReduceLoss});
    plan.ranks.push_back(std::move(rank));
  }
  return plan;
}

}  // namespace trireme

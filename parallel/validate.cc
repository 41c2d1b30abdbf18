#include "parallel/validate.h"

#include <map>
#include <set>
#include <tuple>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using UnitBatch = std::pair<int, int>;  // unit, micro-batch

// What one rank holds while its plan is played.
struct RankState {
  std::size_t position = 0;
  std::vector<bool> resident;
  std::set<UnitBatch> outputs;             // output of the unit is here
  std::set<UnitBatch> inputs;              // received input of the unit
  std::set<UnitBatch> tapes;               // what backward needs is here
  std::set<UnitBatch> pending;             // forward has run, backward has not
  std::set<UnitBatch> kept;                // input kept for a recompute
  std::set<UnitBatch> gradients;           // gradient of the unit's output is here
  std::map<int, std::set<int>> unreduced;  // unit -> micro-batches whose gradients are not reduced yet
  std::set<int> finished;                  // units whose gradient of the whole step is reduced
  std::set<int> reduced_apart;             // units with a micro-batch that was reduced on its own
  bool trains = false, has_norm = false, updated = false;
};

// Messages under way: boundary (the unit before it), micro-batch, direction, source, destination.
using Channel = std::tuple<int, int, bool, int, int>;

class Simulation {
 public:
  explicit Simulation(const StepPlan& plan) : plan_(plan), ranks_(plan.ranks.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].resident.assign(static_cast<std::size_t>(plan.num_units), !plan.sharded_parameters);
      for (const Action& action : plan.ranks[r].actions) {
        if (action.kind == ActionKind::kBackward) ranks_[r].trains = true;
      }
    }
  }

  std::optional<PlanError> run() {
    while (true) {
      bool moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        while (!finished(r) && !is_collective(current(r).kind)) {
          bool blocked = false;
          if (auto error = step(r, blocked)) return error;
          if (blocked) break;
          ++ranks_[r].position;
          moved = true;
        }
      }
      if (all_finished()) return final_state();
      bool joined = false;
      if (auto error = join_collective(joined)) return error;
      if (!moved && !joined) return deadlock();
    }
  }

 private:
  bool finished(std::size_t r) const { return ranks_[r].position >= plan_.ranks[r].actions.size(); }
  const Action& current(std::size_t r) const { return plan_.ranks[r].actions[ranks_[r].position]; }
  bool all_finished() const {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (!finished(r)) return false;
    }
    return true;
  }

  PlanError fail(std::size_t r, const std::string& what) const {
    if (finished(r)) return {static_cast<int>(r), -1, fmt::format("rank {}, end of plan: {}", r, what)};
    return {static_cast<int>(r), static_cast<int>(ranks_[r].position),
            fmt::format("rank {}, action {} ({}): {}", r, ranks_[r].position, to_string(current(r)), what)};
  }

  // Plays one action that is no collective. `blocked`: it waits for a message.
  std::optional<PlanError> step(std::size_t r, bool& blocked) {
    const Action& a = current(r);
    if (a.kind == ActionKind::kOptimStep) return optim_step(r);
    if (a.unit < 0 || a.unit >= plan_.num_units) return fail(r, fmt::format("there is no unit {}", a.unit));
    switch (a.kind) {
      case ActionKind::kRelease:
        return release(r, a);
      case ActionKind::kForward:
        return forward(r, a);
      case ActionKind::kRecompute:
        return recompute(r, a);
      case ActionKind::kBackward:
        return backward(r, a);
      case ActionKind::kSendActivation:
      case ActionKind::kSendGradient:
        return send(r, a);
      default:
        return receive(r, a, blocked);
    }
  }

  std::optional<PlanError> release(std::size_t r, const Action& a) {
    auto resident = ranks_[r].resident[static_cast<std::size_t>(a.unit)];
    if (!resident) return fail(r, "the unit's parameters are not gathered");
    if (!plan_.sharded_parameters) return fail(r, "unsharded parameters cannot be released");
    ranks_[r].resident[static_cast<std::size_t>(a.unit)] = false;
    return std::nullopt;
  }

  std::optional<PlanError> require_resident(std::size_t r, const Action& a) const {
    if (ranks_[r].resident[static_cast<std::size_t>(a.unit)]) return std::nullopt;
    return fail(r, "uses the unit's parameters while they are released; a Gather must come first");
  }

  std::optional<PlanError> forward(std::size_t r, const Action& a) {
    RankState& s = ranks_[r];
    if (auto error = require_resident(r, a)) return error;
    const UnitBatch here{a.unit, a.micro_batch};
    if (a.unit > 0 && !s.outputs.contains({a.unit - 1, a.micro_batch}) && !s.inputs.contains(here)) {
      return fail(r, "its input is not there: neither computed here nor received");
    }
    if (s.pending.contains(here) || s.outputs.contains(here)) return fail(r, "runs a second time");
    s.inputs.erase(here);
    s.outputs.erase({a.unit - 1, a.micro_batch});
    s.outputs.insert(here);
    if (!s.trains) return std::nullopt;
    s.pending.insert(here);
    if (a.keep == Keep::kTape) s.tapes.insert(here);
    if (a.keep == Keep::kInput) s.kept.insert(here);
    return std::nullopt;
  }

  std::optional<PlanError> recompute(std::size_t r, const Action& a) {
    if (auto error = require_resident(r, a)) return error;
    RankState& s = ranks_[r];
    const UnitBatch here{a.unit, a.micro_batch};
    if (!s.pending.contains(here)) return fail(r, "no forward of it has run, or backward has consumed it");
    if (s.tapes.contains(here)) return fail(r, "what backward needs is already here");
    if (s.kept.erase(here) == 0 && s.outputs.erase({a.unit - 1, a.micro_batch}) == 0) {
      return fail(r, "its input was not kept, and the unit before it was not recomputed");
    }
    s.outputs.insert(here);
    s.tapes.insert(here);
    return std::nullopt;
  }

  std::optional<PlanError> backward(std::size_t r, const Action& a) {
    RankState& s = ranks_[r];
    if (auto error = require_resident(r, a)) return error;
    const UnitBatch here{a.unit, a.micro_batch};
    if (!s.pending.contains(here)) return fail(r, "no forward of it has run, or backward has consumed it");
    if (s.has_norm) return fail(r, "comes after GradNorm: its gradient would be lost");
    if (s.finished.contains(a.unit))
      return fail(r, "the unit's gradient of the whole step is already reduced");
    if (!s.tapes.contains(here)) return fail(r, "its forward kept no tape; a Recompute must come first");
    const bool last = a.unit == plan_.num_units - 1;
    if (!last && !s.gradients.contains(here)) return fail(r, "the gradient of its output is not there");
    s.tapes.erase(here);
    s.pending.erase(here);
    s.gradients.erase(here);
    s.outputs.erase(here);
    if (a.unit > 0) s.gradients.insert({a.unit - 1, a.micro_batch});
    s.unreduced[a.unit].insert(a.micro_batch);
    return std::nullopt;
  }

  std::optional<PlanError> optim_step(std::size_t r) {
    RankState& s = ranks_[r];
    if (!s.has_norm) return fail(r, "updates before GradNorm has set the clip coefficient");
    if (s.updated) return fail(r, "updates a second time");
    s.updated = true;
    return std::nullopt;
  }

  static Channel channel_of(const Action& a, int source, int destination) {
    const bool activation = a.kind == ActionKind::kSendActivation || a.kind == ActionKind::kRecvActivation;
    const bool above = a.kind == ActionKind::kSendActivation || a.kind == ActionKind::kRecvGradient;
    return {above ? a.unit : a.unit - 1, a.micro_batch, activation, source, destination};
  }

  std::optional<PlanError> check_peer(std::size_t r, const Action& a) const {
    if (a.peer < 0 || a.peer >= static_cast<int>(ranks_.size()))
      return fail(r, fmt::format("there is no rank {}", a.peer));
    if (a.peer == static_cast<int>(r)) return fail(r, "a rank cannot exchange with itself");
    return std::nullopt;
  }

  std::optional<PlanError> send(std::size_t r, const Action& a) {
    if (auto error = check_peer(r, a)) return error;
    RankState& s = ranks_[r];
    if (a.kind == ActionKind::kSendActivation) {
      if (s.outputs.erase({a.unit, a.micro_batch}) == 0)
        return fail(r, "the unit's output is not here to send");
    } else if (s.gradients.erase({a.unit - 1, a.micro_batch}) == 0) {
      return fail(r, "the gradient of the unit's input is not here to send");
    }
    const Channel channel = channel_of(a, static_cast<int>(r), a.peer);
    sent_by_[channel] = ranks_[r].position;
    ++messages_[channel];
    return std::nullopt;
  }

  std::optional<PlanError> receive(std::size_t r, const Action& a, bool& blocked) {
    if (auto error = check_peer(r, a)) return error;
    const auto message = messages_.find(channel_of(a, a.peer, static_cast<int>(r)));
    if (message == messages_.end() || message->second == 0) {
      blocked = true;
      return std::nullopt;
    }
    --message->second;
    auto& arrived = a.kind == ActionKind::kRecvActivation ? ranks_[r].inputs : ranks_[r].gradients;
    if (!arrived.insert({a.unit, a.micro_batch}).second) return fail(r, "received a second time");
    return std::nullopt;
  }

  // When every rank stands at a collective, they must be the same one.
  std::optional<PlanError> join_collective(bool& joined) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (finished(r) || !is_collective(current(r).kind)) return std::nullopt;
    }
    const Action& first = current(0);
    for (std::size_t r = 1; r < ranks_.size(); ++r) {
      if (!(current(r) == first)) {
        return fail(r, fmt::format("collectives in different order: rank 0 is at action {} ({})",
                                   ranks_[0].position, to_string(first)));
      }
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (auto error = collective(r, first)) return error;
    }
    for (RankState& s : ranks_) ++s.position;
    joined = true;
    return std::nullopt;
  }

  std::optional<PlanError> collective(std::size_t r, const Action& a) {
    RankState& s = ranks_[r];
    const bool of_unit = a.kind == ActionKind::kGather || a.kind == ActionKind::kReduceGrad;
    if (of_unit && (a.unit < 0 || a.unit >= plan_.num_units))
      return fail(r, fmt::format("there is no unit {}", a.unit));
    if (a.kind == ActionKind::kGather) {
      if (s.resident[static_cast<std::size_t>(a.unit)])
        return fail(r, "the unit's parameters are already gathered");
      s.resident[static_cast<std::size_t>(a.unit)] = true;
    } else if (a.kind == ActionKind::kReduceGrad) {
      return reduce_gradient(r, a);
    } else if (a.kind == ActionKind::kGradNorm) {
      if (!s.unreduced.empty()) {
        return fail(r, fmt::format("the gradient of unit {} is not reduced yet", s.unreduced.begin()->first));
      }
      s.has_norm = true;
    }
    return std::nullopt;
  }

  // Of the whole step, after its last backward; or of one micro-batch, before the next one's backward.
  std::optional<PlanError> reduce_gradient(std::size_t r, const Action& a) {
    RankState& s = ranks_[r];
    const auto open = s.unreduced.find(a.unit);
    if (open == s.unreduced.end()) return fail(r, "the unit has no gradient to reduce");
    if (a.micro_batch < 0) {
      if (s.reduced_apart.contains(a.unit))
        return fail(r, "earlier micro-batches of the unit were reduced on their own");
      s.finished.insert(a.unit);
    } else if (open->second != std::set<int>{a.micro_batch}) {
      return fail(
          r, fmt::format(
                 "the gradient of micro-batch {} is not reduced on its own: it has met others or is missing",
                 a.micro_batch));
    }
    if (a.micro_batch >= 0) s.reduced_apart.insert(a.unit);
    s.unreduced.erase(open);
    return std::nullopt;
  }

  PlanError deadlock() const {
    std::string where;
    std::size_t culprit = ranks_.size();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      where +=
          fmt::format("; rank {} {}", r, finished(r) ? "has finished" : "waits in " + to_string(current(r)));
      if (!finished(r) && (culprit == ranks_.size() || !is_collective(current(r).kind))) culprit = r;
    }
    const bool receives = !is_collective(current(culprit).kind);
    return fail(
        culprit,
        (receives ? "a receive whose send never comes" : "a collective that not every rank joins") + where);
  }

  std::optional<PlanError> final_state() const {
    for (const auto& [channel, count] : messages_) {
      if (count == 0) continue;
      const auto& [boundary, micro_batch, activation, source, destination] = channel;
      const std::size_t position = sent_by_.at(channel);
      const Action& action = plan_.ranks[static_cast<std::size_t>(source)].actions[position];
      return PlanError{
          source, static_cast<int>(position),
          fmt::format("rank {}, action {} ({}): a send without a receive: rank {} never takes it", source,
                      position, to_string(action), destination)};
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const RankState& s = ranks_[r];
      for (int u = 0; u < plan_.num_units; ++u) {
        if (s.resident[static_cast<std::size_t>(u)] == plan_.sharded_parameters) {
          return fail(
              r, fmt::format("unit {} is left {}", u, plan_.sharded_parameters ? "gathered" : "released"));
        }
      }
      if (!s.pending.empty()) {
        return fail(r, fmt::format("forward of unit {} micro-batch {} is never followed by its backward",
                                   s.pending.begin()->first, s.pending.begin()->second));
      }
      if (!s.unreduced.empty())
        return fail(r, fmt::format("the gradient of unit {} is never reduced", s.unreduced.begin()->first));
      if (!s.gradients.empty()) {
        return fail(r, fmt::format("the gradient of unit {} micro-batch {} is never used",
                                   s.gradients.begin()->first, s.gradients.begin()->second));
      }
    }
    return std::nullopt;
  }

  const StepPlan& plan_;
  std::vector<RankState> ranks_;
  std::map<Channel, int> messages_;
  std::map<Channel, std::size_t> sent_by_;
};

}  // namespace

std::optional<PlanError> find_plan_error(const StepPlan& plan) {
  if (static_cast<int>(plan.ranks.size()) != plan.mesh.num_ranks()) {
    return PlanError{
        0, -1, fmt::format("the mesh has {} ranks, the plan {}", plan.mesh.num_ranks(), plan.ranks.size())};
  }
  return Simulation(plan).run();
}

void validate(const StepPlan& plan) {
  if (const auto error = find_plan_error(plan)) {
    throw Error(ErrorCode::kInvalidInput, "the plan is wrong: " + error->message);
  }
}

}  // namespace trireme

#include "parallel/plan/validate.h"

#include <algorithm>

#include "parallel/plan/plan_messages.h"
#include "parallel/plan/plan_rank_state.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// Ranks that share the collectives of a scope.
struct Group {
  Scope scope = Scope::kWorld;
  std::vector<int> ranks;
};

std::vector<Group> groups_of(const Mesh& mesh, int data_ranks_per_host) {
  std::vector<Group> groups;
  for (const auto& ranks : mesh.groups(Axis::kData)) {
    for (auto first = ranks.begin(); data_ranks_per_host > 1 && first < ranks.end();
         first += data_ranks_per_host) {
      groups.push_back({Scope::kHost, {first, first + data_ranks_per_host}});
    }
  }
  for (const auto& ranks : mesh.groups(Axis::kData)) groups.push_back({Scope::kData, ranks});
  for (const auto& ranks : mesh.groups(Axis::kTensor)) groups.push_back({Scope::kTensor, ranks});
  for (const auto& ranks : mesh.groups(Axis::kPipeline)) groups.push_back({Scope::kPipeline, ranks});
  Group& world = groups.emplace_back();
  for (int r = 0; r < mesh.num_ranks(); ++r) world.ranks.push_back(r);
  return groups;
}

class Simulation {
 public:
  explicit Simulation(const StepPlan& plan)
      : plan_(plan),
        groups_(groups_of(plan.mesh, plan.data_ranks_per_host)),
        positions_(plan.ranks.size(), 0) {
    for (int r = 0; r < num_ranks(); ++r) ranks_.emplace_back(plan, r);
  }

  std::optional<PlanError> run() {
    while (true) {
      bool moved = false;
      for (int r = 0; r < num_ranks(); ++r) {
        while (!finished(r) && !is_collective(current(r).kind)) {
          bool blocked = false;
          if (auto error = step(r, blocked)) return error;
          if (blocked) break;
          ++position(r);
          moved = true;
        }
      }
      if (all_finished()) return final_state();
      bool joined = false;
      for (const auto& [scope, ranks] : groups_) {
        if (auto error = join(ranks, scope, joined)) return error;
      }
      if (!moved && !joined) return deadlock();
    }
  }

 private:
  int num_ranks() const { return static_cast<int>(plan_.ranks.size()); }
  std::size_t& position(int r) { return positions_[static_cast<std::size_t>(r)]; }
  std::size_t position(int r) const { return positions_[static_cast<std::size_t>(r)]; }
  const std::vector<Action>& actions(int r) const { return plan_.ranks[static_cast<std::size_t>(r)].actions; }
  bool finished(int r) const { return position(r) >= actions(r).size(); }
  const Action& current(int r) const { return actions(r)[position(r)]; }
  PlanRankState& state(int r) { return ranks_[static_cast<std::size_t>(r)]; }

  bool all_finished() const {
    for (int r = 0; r < num_ranks(); ++r) {
      if (!finished(r)) return false;
    }
    return true;
  }

  PlanError fail_at(const PlanMessages::Position& at, const std::string& what) const {
    return {at.rank, static_cast<int>(at.action),
            fmt::format("rank {}, action {} ({}): {}", at.rank, at.action,
                        to_string(actions(at.rank)[at.action]), what)};
  }

  PlanError fail(int r, const std::string& what) const {
    if (finished(r)) return {r, -1, fmt::format("rank {}, end of plan: {}", r, what)};
    return fail_at({r, position(r)}, what);
  }

  // True if an action cannot run before a message that is still to be sent.
  bool waits_for_message(int r, const Action& a) {
    return std::ranges::any_of(state(r).awaited(a), [&](const Action& receive) {
      return receive == a ? !messages_.next_has_arrived(r, receive) : !messages_.has_arrived(r, receive);
    });
  }

  // Plays one action that is not a collective. `blocked`: it waits for another rank.
  std::optional<PlanError> step(int r, bool& blocked) {
    const Action& a = current(r);
    blocked = waits_for_message(r, a);
    if (is_send(a.kind)) {
      blocked = !messages_.can_send(
          a, {.rank = r, .send_window = plan_.ranks[static_cast<std::size_t>(r)].send_window});
    }
    if (blocked) return std::nullopt;
    if (const auto problem = state(r).apply(a)) return fail(r, *problem);
    if (is_send(a.kind)) {
      if (const auto problem = messages_.add_send({r, position(r)}, a)) return fail(r, *problem);
    } else if (is_receive(a.kind)) {
      if (const auto problem = messages_.add_receive({r, position(r)}, a)) return fail(r, *problem);
    }
    return std::nullopt;
  }

  // True if a rank is at a collective of this scope and waits for no message.
  bool ready(int r, Scope scope) {
    if (finished(r) || traits(current(r).kind).scope != scope) return false;
    if (current(r).kind == ActionKind::kReduceLoss) return messages_.all_posted(r);
    return !waits_for_message(r, current(r));
  }

  // A Gather exchanges the groups that no resident unit shares with it, so ranks must agree on the resident
  // units.
  std::optional<PlanError> check_equally_resident(const std::vector<int>& group) {
    for (const int r : group) {
      if (state(r).resident() == state(group[0]).resident()) continue;
      return fail(r, fmt::format("rank {} has other units gathered when it comes here: what they share with "
                                 "this one would be sent by some ranks alone",
                                 group[0]));
    }
    return std::nullopt;
  }

  // Once every rank of a group is at a collective of the group, they must be at the same one.
  std::optional<PlanError> join(const std::vector<int>& group, Scope scope, bool& joined) {
    for (const int r : group) {
      if (!ready(r, scope)) return std::nullopt;
    }
    const Action first = current(group[0]);
    for (const int r : group) {
      if (current(r) == first) continue;
      return fail(r, fmt::format("collectives in different order: rank {} is at action {} ({})", group[0],
                                 position(group[0]), to_string(first)));
    }
    if (first.kind == ActionKind::kGather) {
      if (auto error = check_equally_resident(group)) return error;
    }
    for (const int r : group) {
      if (const auto problem = state(r).apply(first)) return fail(r, *problem);
    }
    for (const int r : group) ++position(r);
    joined = true;
    return std::nullopt;
  }

  // True if the sender of a receive still has the send ahead of it.
  bool will_be_sent(const PlanMessages::Position& at) const {
    const Action& receive = actions(at.rank)[at.action];
    const auto& sender = actions(receive.peer);
    const Action send = counterpart(receive, at.rank);
    return std::find(sender.begin() + static_cast<std::ptrdiff_t>(position(receive.peer)), sender.end(),
                     send) != sender.end();
  }

  // The receive at the root of a deadlock, preferably one that no rank will send.
  std::optional<PlanMessages::Position> culprit_receive() const {
    std::optional<PlanMessages::Position> culprit;
    for (int r = 0; r < num_ranks(); ++r) {
      const auto receive = messages_.waiting_receive(r);
      if (receive && !will_be_sent(*receive)) return receive;
      if (receive && !culprit) culprit = receive;
    }
    return culprit;
  }

  PlanError deadlock() const {
    std::string where;
    for (int r = 0; r < num_ranks(); ++r) {
      where +=
          fmt::format("; rank {} {}", r, finished(r) ? "has finished" : "waits in " + to_string(current(r)));
    }
    if (const auto receive = culprit_receive()) {
      return fail_at(*receive, "a receive whose send never comes" + where);
    }
    if (const auto send = messages_.unmatched_send()) return send_without_receive(*send, where);
    int r = 0;
    while (finished(r)) ++r;
    const bool receives = !is_collective(current(r).kind);
    return fail(
        r,
        (receives ? "a receive whose send never comes" : "a collective that not every rank joins") + where);
  }

  PlanError send_without_receive(const PlanMessages::Unmatched& send, const std::string& where = "") const {
    return fail_at(send.position,
                   fmt::format("a send without a receive: rank {} never takes it{}", send.peer, where));
  }

  std::optional<PlanError> final_state() {
    if (const auto send = messages_.unmatched_send()) return send_without_receive(*send);
    if (const auto receive = messages_.unmatched_receive()) {
      return fail_at(receive->position,
                     fmt::format("a receive without a send: rank {} never sends", receive->peer));
    }
    for (int r = 0; r < num_ranks(); ++r) {
      if (const auto problem = state(r).at_end()) return fail(r, *problem);
    }
    return std::nullopt;
  }

  const StepPlan& plan_;
  const std::vector<Group> groups_;
  std::vector<std::size_t> positions_;
  std::vector<PlanRankState> ranks_;
  PlanMessages messages_;
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

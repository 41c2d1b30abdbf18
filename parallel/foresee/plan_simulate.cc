#include "parallel/foresee/plan_simulate.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "parallel/plan/action_span.h"
#include "parallel/plan/plan_text.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

double duration(ActionKind kind, const BlockTime& time, double weight_share) {
  if (kind == ActionKind::kForward || kind == ActionKind::kRecompute) return time.forward_ms;
  if (kind == ActionKind::kBackward) return time.backward_ms;
  return time.backward_ms * (kind == ActionKind::kBackwardWeight ? weight_share : 1 - weight_share);
}

bool waits_for_all(ActionKind kind) {
  return traits(kind).scope == Scope::kWorld || traits(kind).scope == Scope::kPipeline;
}

bool brings_parameters(ActionKind kind) {
  return kind == ActionKind::kGather || kind == ActionKind::kGatherInHost;
}

/// True for actions of the norm, the clipping and the update of the whole model: they need all exchanges.
bool needs_all_exchanges(ActionKind kind) {
  return traits(kind).spent == TimeSpent::kUpdate && traits(kind).unit == Takes::kNo;
}

/// One exchange over a group, shared by all of its ranks.
struct GroupExchange {
  std::vector<std::tuple<int, Action>> posted;  // ranks that have posted it
  double last_post = 0.0, duration = 0.0;
  std::optional<double> end;  // set once all have posted it
};

class PlanSimulator {
 public:
  PlanSimulator(const StepPlan& plan, const ActionTimes& times)
      : plan_(plan),
        times_(times),
        spans_(plan, times.unit_names),
        ranks_(plan.ranks.size()),
        timeline_{.num_ranks = static_cast<int>(plan.ranks.size())} {}

  Timeline run() {
    bool moved = true;
    while (moved) {
      moved = false;
      // One action per rank and turn: identical ranks stay in step, and none occupies a link long before the
      // others.
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        if (!done(rank) && run_next(static_cast<int>(rank))) moved = true;
      }
      if (!moved) moved = meet();
    }
    check_done();
    return std::move(timeline_);
  }

 private:
  using Link = std::tuple<int, int, Channel>;     // from, to
  using Message = std::tuple<Channel, int, int>;  // unit, micro-batch
  using Group = std::tuple<Scope, int>;           // first rank of the group
  struct Pending {
    const GroupExchange* exchange;
    int unit;
    bool brings_parameters;
  };
  struct Rank {
    std::size_t next = 0;
    double now = 0.0;
    double data_free = 0.0, tensor_free = 0.0;  // time at which an exchange over the axis can begin
    double& wire_free(Scope scope) { return scope == Scope::kTensor ? tensor_free : data_free; }
    std::map<Message, std::pair<Link, std::size_t>> receives;  // in flight: index of the message on its link
    std::vector<std::pair<Link, std::size_t>> tied_receives;
    std::vector<Pending> pending;
    std::map<Scope, std::size_t> num_posted;
    const GroupExchange* waits_for = nullptr;
    std::optional<ActionTime> time;  // of the next action, once it was tried
  };

  bool done(std::size_t rank) const { return ranks_[rank].next == plan_.ranks[rank].actions.size(); }
  const Action& next(std::size_t rank) const { return plan_.ranks[rank].actions[ranks_[rank].next]; }

  std::optional<double> arrival(const std::pair<Link, std::size_t>& message) {
    const std::vector<double>& arrived = arrivals_[message.first];
    if (arrived.size() <= message.second) return std::nullopt;
    return arrived[message.second];
  }

  /// The time at which all inputs of an action are available; empty: not yet known.
  std::optional<double> ready(Rank& rank, const Action& action) {
    const Message wanted{traits(action.kind).takes_from, action.unit, action.micro_batch};
    const auto found = rank.receives.find(wanted);
    double at = rank.now;
    if (found != rank.receives.end()) {
      const std::optional<double> arrived = arrival(found->second);
      if (!arrived) return std::nullopt;
      at = std::max(at, *arrived);
    }
    const bool all = needs_all_exchanges(action.kind);
    const auto is_needed = [&](const Pending& pending) {
      return all || (computes(action.kind) && pending.brings_parameters && pending.unit == action.unit);
    };
    bool needs_some = false;
    for (const Pending& pending : rank.pending) {
      if (!is_needed(pending)) continue;
      needs_some = true;
      if (!pending.exchange->end) return std::nullopt;
      at = std::max(at, *pending.exchange->end);
    }
    for (const auto& message : rank.tied_receives) {
      if (!all) break;
      const std::optional<double> arrived = arrival(message);
      if (!arrived) return std::nullopt;
      at = std::max(at, *arrived);
    }
    if (found != rank.receives.end()) rank.receives.erase(found);
    if (needs_some) std::erase_if(rank.pending, is_needed);  // the rank's time is past their ends from now on
    if (all) rank.tied_receives.clear();
    return at;
  }

  void add_span(int rank, const Action& action, double start, double end,
                std::optional<TimeSpent> spent = std::nullopt) {
    if (end <= start) return;
    if (times_.labels)
      timeline_.spans.push_back(spans_.span(rank, action, start, end));
    else
      timeline_.spans.push_back({.rank = rank,
                                 .spent = traits(action.kind).spent,
                                 .micro_batch = action.micro_batch,
                                 .start_ms = start,
                                 .end_ms = end});
    if (spent) timeline_.spans.back().spent = *spent;
  }

  bool compute(int rank, const Action& action, double ms) {
    Rank& state = ranks_[static_cast<std::size_t>(rank)];
    const std::optional<double> start = ready(state, action);
    if (!start) return false;
    state.now = *start + ms;
    add_span(rank, action, *start, state.now);
    return true;
  }

  /// The computation of a rank for an exchange.
  void prepare(int rank, const Action& action, double ms) {
    Rank& state = ranks_[static_cast<std::size_t>(rank)];
    add_span(rank, action, state.now, state.now + ms, TimeSpent::kUpdate);
    state.now += ms;
  }

  std::vector<int> members(Scope scope, int rank) const {
    const Axis axis = scope == Scope::kTensor ? Axis::kTensor : Axis::kData;
    int first = 0, size = plan_.mesh.size(axis);
    if (scope == Scope::kHost) {
      size = plan_.data_ranks_per_host;
      first = plan_.mesh.coord(rank)[axis] / size * size;
    }
    std::vector<int> ranks;
    for (int position = first; position < first + size; ++position) {
      ranks.push_back(plan_.mesh.rank_along(axis, rank, position));
    }
    return ranks;
  }

  const GroupExchange& post(int rank, const Action& action, double ms) {
    Rank& state = ranks_[static_cast<std::size_t>(rank)];
    const Scope scope = traits(action.kind).scope;
    const std::vector<int> group = members(scope, rank);
    std::deque<GroupExchange>& all = exchanges_[{scope, group[0]}];
    const std::size_t place = state.num_posted[scope]++;
    if (all.size() <= place) all.resize(place + 1);
    GroupExchange& exchange = all[place];
    exchange.posted.emplace_back(rank, action);
    exchange.last_post = std::max(exchange.last_post, state.now);
    exchange.duration = std::max(exchange.duration, ms);
    if (exchange.posted.size() < group.size()) return exchange;
    double start = exchange.last_post;
    for (const int member : group)
      start = std::max(start, ranks_[static_cast<std::size_t>(member)].wire_free(scope));
    exchange.end = start + exchange.duration;
    for (const auto& [member, its_action] : exchange.posted) {
      ranks_[static_cast<std::size_t>(member)].wire_free(scope) = *exchange.end;
      add_span(member, its_action, start, *exchange.end);
    }
    return exchange;
  }

  /// An exchange over the tensor or the data axis.
  bool exchange(int rank, const Action& action, const ActionTime& time) {
    Rank& state = ranks_[static_cast<std::size_t>(rank)];
    const bool blocks = traits(action.kind).scope == Scope::kTensor;
    if (state.waits_for == nullptr) {
      prepare(rank, action, time.compute_ms);
      if (!time.exchange_ms) return true;
      const GroupExchange& posted = post(rank, action, *time.exchange_ms);
      if (!blocks) state.pending.push_back({&posted, action.unit, brings_parameters(action.kind)});
      if (!blocks && times_.overlap >= 1) return true;
      state.waits_for = &posted;
    }
    if (!state.waits_for->end) return false;
    const double hidden = blocks ? 0 : times_.overlap * state.waits_for->duration;
    state.now = std::max(state.now, *state.waits_for->end - hidden);
    state.waits_for = nullptr;
    return true;
  }

  void send(int rank, const Action& action, const ActionTime& time) {
    Rank& state = ranks_[static_cast<std::size_t>(rank)];
    prepare(rank, action, time.compute_ms);
    const double at = state.now + time.exchange_ms.value_or(0.0);
    arrivals_[{rank, action.peer, traits(action.kind).channel}].push_back(at);
    add_span(rank, action, state.now, at);
  }

  void receive(int rank, const Action& action) {
    Rank& state = ranks_[static_cast<std::size_t>(rank)];
    const Channel channel = traits(action.kind).channel;
    const Link link{action.peer, rank, channel};
    const std::pair message(link, num_receives_[link]++);
    if (channel == Channel::kTied)
      state.tied_receives.push_back(message);
    else
      state.receives[{channel, action.unit, action.micro_batch}] = message;
  }

  bool run_next(int rank) {
    Rank& state = ranks_[static_cast<std::size_t>(rank)];
    const Action& action = next(static_cast<std::size_t>(rank));
    if (waits_for_all(action.kind)) return false;
    if (!state.time) state.time = times_.of(rank, action);
    const ActionTime& time = *state.time;
    if (computes(action.kind) || traits(action.kind).spent == TimeSpent::kUpdate) {
      if (!compute(rank, action, time.compute_ms)) return false;
    } else if (is_collective(action.kind)) {
      if (!exchange(rank, action, time)) return false;
    } else if (is_send(action.kind)) {
      send(rank, action, time);
    } else {
      prepare(rank, action, time.compute_ms);
      if (is_receive(action.kind)) receive(rank, action);
    }
    ++state.next;
    state.time.reset();
    return true;
  }

  // If all ranks have reached a collective of all ranks, they pass it together.
  bool meet() {
    double last = 0.0, exchange_ms = 0.0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (done(rank) || !waits_for_all(next(rank).kind)) return false;
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const ActionTime time = times_.of(static_cast<int>(rank), next(rank));
      prepare(static_cast<int>(rank), next(rank), time.compute_ms);
      exchange_ms = std::max(exchange_ms, time.exchange_ms.value_or(0.0));
      last = std::max(last, ranks_[rank].now);
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      add_span(static_cast<int>(rank), next(rank), last, last + exchange_ms);
      ranks_[rank].now = last + exchange_ms;
      ++ranks_[rank].next;
    }
    return !ranks_.empty();
  }

  void check_done() const {
    std::string waiting;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (done(rank)) continue;
      waiting += fmt::format("{}rank {} in {}", waiting.empty() ? "" : "; ", rank,
                             to_text(next(rank), times_.unit_names));
    }
    TRIREME_CHECK(waiting.empty(), "the plan blocks: {}", waiting);
  }

  const StepPlan& plan_;
  const ActionTimes& times_;
  const ActionSpans spans_;
  std::vector<Rank> ranks_;
  std::map<Link, std::vector<double>> arrivals_;  // by message, in the order sent
  std::map<Link, std::size_t> num_receives_;
  std::map<Group, std::deque<GroupExchange>> exchanges_;
  Timeline timeline_;
};

}  // namespace

Timeline simulate_plan(const StepPlan& plan, const ActionTimes& times) {
  return PlanSimulator(plan, times).run();
}

Timeline simulate_plan(const StepPlan& plan, const PlanTimes& times) {
  TRIREME_CHECK(times.blocks.size() == static_cast<std::size_t>(plan.num_units),
                "times of {} blocks for a plan of {} units", times.blocks.size(), plan.num_units);
  ActionTimes actions;
  for (const BlockTime& time : times.blocks) actions.unit_names.push_back(time.block);
  actions.of = [&times](int, const Action& action) -> ActionTime {
    if (computes(action.kind)) {
      return {duration(action.kind, times.blocks[static_cast<std::size_t>(action.unit)], times.weight_share)};
    }
    const bool sends = is_send(action.kind) && traits(action.kind).channel != Channel::kTied;
    return {.compute_ms = 0.0, .exchange_ms = sends ? std::optional(times.send_ms) : std::nullopt};
  };
  return simulate_plan(plan, actions);
}

}  // namespace trireme

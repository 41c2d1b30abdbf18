#include "parallel/foresee/plan_simulate.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "parallel/foresee/action_span.h"
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

std::vector<std::string> names_of(const std::vector<BlockTime>& blocks) {
  std::vector<std::string> names;
  for (const BlockTime& time : blocks) names.push_back(time.block);
  return names;
}

class PlanSimulator {
 public:
  PlanSimulator(const StepPlan& plan, const PlanTimes& times)
      : plan_(plan),
        times_(times),
        names_(names_of(times.blocks)),
        spans_(plan, names_),
        ranks_(plan.ranks.size()),
        timeline_{.num_ranks = static_cast<int>(plan.ranks.size())} {
    TRIREME_CHECK(times.blocks.size() == static_cast<std::size_t>(plan.num_units),
                  "times of {} blocks for a plan of {} units", times.blocks.size(), plan.num_units);
  }

  Timeline run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        while (!done(rank) && run_next(static_cast<int>(rank))) moved = true;
      }
      moved = meet() || moved;
    }
    check_done();
    return std::move(timeline_);
  }

 private:
  using Link = std::tuple<int, int, bool>;     // from, to, whether activations
  using Message = std::tuple<bool, int, int>;  // whether an activation, unit, micro-batch
  struct Rank {
    std::size_t next = 0;
    double now = 0.0;
    std::map<Message, std::pair<Link, std::size_t>> receives;  // in flight: which message of which channel
  };

  bool done(std::size_t rank) const { return ranks_[rank].next == plan_.ranks[rank].actions.size(); }
  const Action& next(std::size_t rank) const { return plan_.ranks[rank].actions[ranks_[rank].next]; }

  // When what a Forward or Backward receives is there; empty: not sent yet.
  std::optional<double> arrival(Rank& rank, const Action& action) {
    const auto found = rank.receives.find(
        {traits(action.kind).takes_from == Channel::kActivations, action.unit, action.micro_batch});
    if (found == rank.receives.end()) return rank.now;
    const auto& [channel, place] = found->second;
    if (arrivals_[channel].size() <= place) return std::nullopt;
    const double at = arrivals_[channel][place];
    rank.receives.erase(found);
    return at;
  }

  void add_span(int rank, const Action& action, double start, double end) {
    if (end > start) timeline_.spans.push_back(spans_.span(rank, action, start, end));
  }

  bool compute(int rank, const Action& action) {
    Rank& state = ranks_[static_cast<std::size_t>(rank)];
    const bool receives = traits(action.kind).takes_from != Channel::kNone;
    const auto at = receives ? arrival(state, action) : std::optional(state.now);
    if (!at) return false;
    const double start = std::max(*at, state.now);
    state.now = start + duration(action.kind, times_.blocks[static_cast<std::size_t>(action.unit)],
                                 times_.weight_share);
    add_span(rank, action, start, state.now);
    return true;
  }

  bool run_next(int rank) {
    Rank& state = ranks_[static_cast<std::size_t>(rank)];
    const Action& action = next(static_cast<std::size_t>(rank));
    const bool activation = traits(action.kind).channel == Channel::kActivations;
    if (waits_for_all(action.kind)) return false;
    if (computes(action.kind)) {
      if (!compute(rank, action)) return false;
    } else if (is_send(action.kind) && traits(action.kind).channel != Channel::kTied) {
      arrivals_[{rank, action.peer, activation}].push_back(state.now + times_.send_ms);
      add_span(rank, action, state.now, state.now + times_.send_ms);
    } else if (is_receive(action.kind) && traits(action.kind).channel != Channel::kTied) {
      const Link channel{action.peer, rank, activation};
      state.receives[{activation, action.unit, action.micro_batch}] = {channel, num_receives_[channel]++};
    }
    ++state.next;
    return true;
  }

  // Ranks that all stand before a collective of all go on together.
  bool meet() {
    double last = 0.0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (done(rank) || !waits_for_all(next(rank).kind)) return false;
      last = std::max(last, ranks_[rank].now);
    }
    for (Rank& rank : ranks_) {
      rank.now = last;
      ++rank.next;
    }
    return !ranks_.empty();
  }

  void check_done() const {
    std::string waiting;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (done(rank)) continue;
      waiting +=
          fmt::format("{}rank {} in {}", waiting.empty() ? "" : "; ", rank, to_text(next(rank), names_));
    }
    TRIREME_CHECK(waiting.empty(), "the plan blocks: {}", waiting);
  }

  const StepPlan& plan_;
  const PlanTimes& times_;
  const std::vector<std::string> names_;
  const ActionSpans spans_;
  std::vector<Rank> ranks_;
  std::map<Link, std::vector<double>> arrivals_;  // of each message, in the order sent
  std::map<Link, std::size_t> num_receives_;
  Timeline timeline_;
};

}  // namespace

Timeline simulate_plan(const StepPlan& plan, const PlanTimes& times) {
  return PlanSimulator(plan, times).run();
}

}  // namespace trireme

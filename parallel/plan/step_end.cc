#include "parallel/plan/step_end.h"

#include <algorithm>

namespace trireme {
namespace {

using enum ActionKind;

void append(std::vector<Action>& actions, const std::vector<Action>& more) {
  actions.insert(actions.end(), more.begin(), more.end());
}

void add_once(std::vector<Action>& actions, const Action& action) {
  if (std::ranges::find(actions, action) == actions.end()) actions.push_back(action);
}

// Messages to the stages of tied units, before the norm and after the update. Sends come first, because they
// wait for no other rank.
struct TieActions {
  std::vector<Action> before_norm, after_update;
};

TieActions tie_actions(int stage, const PlanOptions& options, const OwedExchanges& owed) {
  TieActions sends, receives;
  std::vector<Action> gathers, gathers_updated;
  for (const TiedUnits& tie : options.ties) {
    const int owner = options.stages.stage_of(tie.owner), user = options.stages.stage_of(tie.user);
    if (user == stage) {
      add_once(sends.before_norm, {.kind = kSendTiedGradient, .unit = tie.user, .peer = owner});
      add_once(receives.after_update, {.kind = kRecvTiedParameters, .unit = tie.owner, .peer = owner});
      if (owed.gathers_updated) add_once(gathers_updated, {.kind = kGatherUpdated, .unit = tie.owner});
      if (owed.gathers_updated && options.data_ranks_per_host > 1) {
        add_once(gathers_updated, {.kind = kGatherUpdatedInHost, .unit = tie.owner});
      }
    }
    if (owner == stage) {
      add_once(receives.before_norm, {.kind = kRecvTiedGradient, .unit = tie.user, .peer = user});
      add_once(sends.after_update, {.kind = kSendTiedParameters, .unit = tie.owner, .peer = user});
      if (!owed.gathers_gradients) continue;
      add_once(gathers, {.kind = kGatherGrad, .unit = tie.owner});
      if (owed.gathers_gradients_in_host) add_once(gathers, {.kind = kGatherGradInHost, .unit = tie.owner});
    }
  }
  append(sends.before_norm, receives.before_norm);
  append(sends.before_norm, gathers);
  append(sends.after_update, receives.after_update);
  append(sends.after_update, gathers_updated);
  return sends;
}

// `change` of every unit of a stage, followed by the gathers of its working copies. The copies travel while
// the next units change. Gathers inside hosts start after all gathers between hosts have started: on slow
// links a gather that starts late only waits for its handshakes.
std::vector<Action> change_of_units(ActionKind change, int stage, const PlanOptions& options,
                                    const OwedExchanges& owed) {
  std::vector<Action> actions, in_host;
  for (int unit = 0; unit < options.stages.num_units(); ++unit) {
    if (options.stages.stage_of(unit) != stage) continue;
    actions.push_back({.kind = change, .unit = unit});
    if (!owed.gathers_updated) continue;
    actions.push_back({.kind = kGatherUpdated, .unit = unit});
    if (options.data_ranks_per_host > 1) in_host.push_back({.kind = kGatherUpdatedInHost, .unit = unit});
  }
  append(actions, in_host);
  return actions;
}

}  // namespace

OwedExchanges owed_exchanges(const Mesh& mesh, const PlanOptions& options) {
  OwedExchanges owed;
  if (mesh.size(Axis::kData) > 1) {
    owed.gathers_gradients = options.gather_gradients;
    owed.gathers_gradients_in_host =
        options.data_ranks_per_host > 1 && !sharded_by(options.layout.zero).optimizer;
    owed.gathers_norms = sharded_by(options.layout.zero).optimizer;
    owed.gathers_updated =
        sharded_by(options.layout.zero).optimizer && !sharded_by(options.layout.zero).parameters;
  }
  if (std::ranges::find(options.statistics, true) == options.statistics.end()) return owed;
  owed.has_statistics.resize(static_cast<std::size_t>(mesh.size(Axis::kPipeline)));
  for (std::size_t unit = 0; unit < options.statistics.size(); ++unit) {
    const int stage = options.stages.stage_of(static_cast<int>(unit));
    if (options.statistics[unit]) owed.has_statistics[static_cast<std::size_t>(stage)] = true;
  }
  return owed;
}

bool gathers_at_end(const PlanOptions& options, int unit) {
  return std::ranges::find(options.ties, unit, &TiedUnits::owner) != options.ties.end();
}

std::vector<Action> end_of_step(int stage, const Mesh& mesh, const PlanOptions& options) {
  const OwedExchanges owed = owed_exchanges(mesh, options);
  const TieActions ties = tie_actions(stage, options, owed);
  std::vector<Action> actions = ties.before_norm;
  actions.push_back({.kind = kReduceLoss});
  actions.push_back({.kind = kGradNorm});
  if (owed.gathers_norms) actions.push_back({.kind = kGatherNorms});
  if (mesh.size(Axis::kTensor) > 1) actions.push_back({.kind = kGatherChunkNorms});
  if (mesh.size(Axis::kPipeline) > 1) actions.push_back({.kind = kBroadcastNorms});
  actions.push_back({.kind = kClipGrad});
  append(actions, change_of_units(kOptimStep, stage, options, owed));
  if (!owed.has_statistics.empty() && owed.has_statistics[static_cast<std::size_t>(stage)]) {
    actions.push_back({.kind = kReduceStatistics});
  }
  append(actions, ties.after_update);
  return actions;
}

std::vector<Action> swap_of_averages(int stage, const Mesh& mesh, const PlanOptions& options) {
  const OwedExchanges owed = owed_exchanges(mesh, options);
  std::vector<Action> actions = change_of_units(kSwapAverages, stage, options, owed);
  append(actions, tie_actions(stage, options, owed).after_update);
  return actions;
}

}  // namespace trireme

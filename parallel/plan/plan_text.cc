#include "parallel/plan/plan_text.h"

#include <fmt/core.h>

#include <algorithm>

namespace trireme {

std::vector<PlanClass> classes_of_equal_plans(const StepPlan& plan) {
  std::vector<PlanClass> classes;
  for (int r = 0; r < static_cast<int>(plan.ranks.size()); ++r) {
    const RankPlan& mine = plan.ranks[static_cast<std::size_t>(r)];
    const auto same =
        std::ranges::find_if(classes, [&](const PlanClass& c) { return c.plan->actions == mine.actions; });
    if (same != classes.end()) {
      same->ranks.push_back(r);
    } else {
      classes.push_back({{r}, &mine});
    }
  }
  return classes;
}

std::string format_ranks(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[i]);
    if (last > i) text += fmt::format("-{}", ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string to_text(const Action& action, const std::vector<std::string>& unit_names) {
  std::string text(name(action.kind));
  if (action.unit >= 0)
    text += fmt::format(" unit {} ({})", action.unit, unit_names.at(static_cast<std::size_t>(action.unit)));
  if (action.micro_batch >= 0) text += fmt::format(" micro-batch {}", action.micro_batch);
  if (action.peer >= 0) text += fmt::format(" peer {}", action.peer);
  return text;
}

std::string to_text(const StepPlan& plan, const std::vector<std::string>& unit_names) {
  std::string text;
  for (const PlanClass& c : classes_of_equal_plans(plan)) {
    text += fmt::format("{} {}: {} actions\n", c.ranks.size() == 1 ? "rank" : "ranks", format_ranks(c.ranks),
                        c.plan->actions.size());
    for (const Action& action : c.plan->actions) text += "  " + to_text(action, unit_names) + "\n";
  }
  return text;
}

}  // namespace trireme

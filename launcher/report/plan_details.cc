#include "launcher/report/plan_details.h"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/render/text_table.h"
#include "parallel/mesh/hosts.h"
#include "parallel/plan/plan_text.h"

namespace trireme {
namespace {

std::string describe_traffic(const StepPrediction& prediction) {
  if (prediction.sent_bytes == 0) return "";
  const auto list = [](const std::map<std::string, std::int64_t>& sent) {
    std::string text;
    for (const auto& [kind, bytes] : sent) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kind, format_bytes(bytes));
    }
    return text;
  };
  return "  " + wrapped(fmt::format("sent by {}", list(sent_by_action(prediction))), 96) + "  " +
         wrapped(fmt::format("sent as {}", list(sent_by_call(prediction))), 96);
}

std::string describe_group(const std::vector<int>& ranks, const StepPrediction& prediction) {
  const MemoryStats& memory = prediction.memory;
  std::string text =
      fmt::format("{} {}: {} at the peak, in {}; {} sent a step\n", ranks.size() == 1 ? "rank" : "ranks",
                  format_ranks(ranks), format_bytes(memory.peak_total),
                  prediction.describe(prediction.peak_action()), format_bytes(prediction.sent_bytes));
  TextRows rows{{"bytes", "own peak", "at the peak", "own peak in"}};
  for (const MemoryCategory category : predicted_categories()) {
    const std::int64_t own = memory.peak[category];
    rows.push_back({std::string(name(category)), std::to_string(own),
                    std::to_string(memory.at_peak[category]),
                    own > 0 ? prediction.describe(prediction.peak_action(category)) : "-"});
  }
  rows.push_back({"total", "", std::to_string(memory.peak_total), ""});
  if (const std::int64_t workspace = memory.peak[MemoryCategory::kWorkspace]; workspace > 0)
    rows.push_back({"workspace", std::to_string(workspace), std::to_string(memory.device_peak),
                    "of attention and products; peak with it in " +
                        prediction.describe(prediction.device_peak_action())});
  rows.push_back({"state", "", std::to_string(prediction.state_bytes()),
                  "parameters, gradients and optimizer when it steps"});
  rows.push_back({"sent", "", std::to_string(prediction.sent_bytes), "a step"});
  return text + to_text(std::move(rows), {.num_kept = 4, .num_text = 1}) + describe_traffic(prediction);
}

std::string_view axis_of(ActionKind kind) {
  // Blocks only send what tensor ranks sum.
  if (computes(kind)) return name(Axis::kTensor);
  switch (traits(kind).scope) {
    case Scope::kRank:  // messages between stages
    case Scope::kPipeline:
      return name(Axis::kPipeline);
    case Scope::kData:
    case Scope::kHost:
      return name(Axis::kData);
    case Scope::kTensor:
      return name(Axis::kTensor);
    case Scope::kWorld:
      break;
  }
  return "world";
}

std::map<std::string, std::int64_t> sent_by(const StepPrediction& prediction, const auto& name_of) {
  std::map<std::string, std::int64_t> sent;
  for (std::size_t i = 0; i < prediction.actions.size(); ++i) {
    const std::int64_t bytes = prediction.actions[i].sent_bytes;
    if (bytes > 0) sent[std::string(name_of(prediction.plan.actions[i].kind))] += bytes;
  }
  return sent;
}

}  // namespace

std::vector<MemoryCategory> predicted_categories() {
  std::vector<MemoryCategory> categories;
  for (int c = 0; c < kNumMemoryCategories; ++c) {
    const auto category = static_cast<MemoryCategory>(c);
    if (category != MemoryCategory::kWorkspace) categories.push_back(category);
  }
  return categories;
}

std::map<std::string, std::int64_t> sent_by_action(const StepPrediction& prediction) {
  return sent_by(prediction, [](ActionKind kind) { return name(kind); });
}

std::map<std::string, std::int64_t> sent_by_call(const StepPrediction& prediction) {
  std::map<std::string, std::int64_t> sent;
  for (int c = 0; c < kNumCallKinds; ++c) {
    const std::int64_t bytes = prediction.sent_by_call[static_cast<std::size_t>(c)];
    if (bytes > 0) sent[std::string(name(static_cast<CallKind>(c)))] = bytes;
  }
  return sent;
}

std::map<std::string, std::int64_t> sent_by_axis(const StepPrediction& prediction) {
  return sent_by(prediction, axis_of);
}

std::optional<PartnerMemory> partner_memory(const PlanReport& report) {
  std::int64_t state = 0;
  for (const RankGroupReport& group : report.groups)
    state += group.prediction.snapshot_bytes * std::ssize(group.ranks);
  if (!report.config.checkpoint.partner || state == 0) return std::nullopt;
  const int hosts = num_hosts(report.hosts);
  const std::int64_t kept = state / hosts * std::min(hosts, 2);
  return PartnerMemory{
      .kept = kept, .while_copying = 2 * kept, .while_restoring = kept + state + state / hosts};
}

std::string memory_details(const PlanReport& report, std::optional<int> rank) {
  std::string text;
  for (const RankGroupReport& group : report.groups) {
    if (!rank) text += describe_group(group.ranks, group.prediction);
    if (rank && std::ranges::find(group.ranks, *rank) != group.ranks.end())
      text += describe_group({*rank}, group.prediction);
  }
  return text;
}

std::string action_details(const PlanReport& report, std::optional<int> rank) {
  if (!rank) return to_text(report.plan, report.unit_names);
  const auto& actions = report.plan.ranks.at(static_cast<std::size_t>(*rank)).actions;
  std::string text = fmt::format("rank {}: {} actions\n", *rank, actions.size());
  for (const Action& action : actions) text += "  " + to_text(action, report.unit_names) + "\n";
  return text;
}

}  // namespace trireme

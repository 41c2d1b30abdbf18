#include "launcher/plan_report.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "launcher/build.h"
#include "parallel/comm/recording.h"
#include "parallel/plan_text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json memory_json(const MemoryCounts& counts) {
  Json json;
  for (int c = 0; c < kNumMemoryCategories; ++c) {
    const auto category = static_cast<MemoryCategory>(c);
    if (category == MemoryCategory::kWorkspace) continue;  // measured only
    json[std::string(name(category))] = counts[category];
  }
  return json;
}

Json action_json(const Action& action, const std::vector<std::string>& unit_names) {
  Json json = {{"kind", name(action.kind)}};
  if (action.unit >= 0) {
    json["unit"] = action.unit;
    json["block"] = unit_names.at(static_cast<std::size_t>(action.unit));
  }
  if (action.micro_batch >= 0) json["micro_batch"] = action.micro_batch;
  if (action.peer >= 0) json["peer"] = action.peer;
  return json;
}

Json group_json(const RankGroupReport& group, const PlanReport& report) {
  Json actions = Json::array();
  for (const Action& action : report.plan.ranks[static_cast<std::size_t>(group.ranks[0])].actions) {
    actions.push_back(action_json(action, report.unit_names));
  }
  return {{"ranks", group.ranks},
          {"peak_bytes", group.prediction.memory.peak_total},
          {"memory", memory_json(group.prediction.memory.peak)},
          {"memory_at_peak", memory_json(group.prediction.memory.at_peak)},
          {"comm_bytes", group.prediction.sent_bytes},
          {"actions", actions}};
}

std::string describe_group(const RankGroupReport& group) {
  const MemoryStats& memory = group.prediction.memory;
  std::string text = fmt::format("{} {}: {} at the peak, {} sent a step\n",
                                 group.ranks.size() == 1 ? "rank" : "ranks", format_ranks(group.ranks),
                                 format_bytes(memory.peak_total), format_bytes(group.prediction.sent_bytes));
  text += fmt::format("  {:<15} {:>20} {:>20}\n", "bytes", "own peak", "at the peak");
  for (int c = 0; c < kNumMemoryCategories; ++c) {
    const auto category = static_cast<MemoryCategory>(c);
    if (category == MemoryCategory::kWorkspace) continue;
    text += fmt::format("  {:<15} {:>20} {:>20}\n", name(category), memory.peak[category],
                        memory.at_peak[category]);
  }
  return text;
}

}  // namespace

PlanReport make_plan_report(const JobConfig& config, int num_ranks) {
  check_batch(config.train, num_ranks);
  const auto blocks = build_blocks(config.model);
  EngineOptions options = engine_options(config);
  options.device = {DeviceType::kMeta};
  options.memory_limit = std::nullopt;
  const Engine engine(blocks, std::make_shared<RecordingCommunicator>(0, num_ranks),
                      options);  // plans, validates
  PlanReport report{.config = config,
                    .num_ranks = num_ranks,
                    .num_parameters = engine.layout().num_parameters,
                    .plan = engine.plan()};
  for (const auto& block : *blocks) report.unit_names.push_back(block->name());
  for (const PlanClass& same : classes_of_equal_plans(report.plan)) {
    report.groups.push_back(
        {.ranks = same.ranks,
         .prediction = predict_step(blocks, options, sample_spec(config), num_ranks, same.ranks[0])});
  }
  return report;
}

std::string to_text(const PlanReport& report) {
  const JobConfig& job = report.config;
  std::string text =
      fmt::format("{}: {} parameters in {} units ({} layers, {} wide, {} heads, vocabulary {}, context {})\n",
                  job.model.name, report.num_parameters, report.unit_names.size(), job.model.layers,
                  job.model.hidden, job.model.heads, job.model.vocab, job.model.seq_len);
  text +=
      fmt::format("{} rank(s); a step is {} samples, {} micro-batch(es) of {} on each rank\n",
                  report.num_ranks, job.train.global_batch,
                  job.train.global_batch / job.train.micro_batch / report.num_ranks, job.train.micro_batch);
  text += fmt::format("{}, {} reduction, zero {}, recompute every {}\n", job.precision.mode,
                      job.parallel.reduction, job.parallel.zero, job.parallel.recompute_every);
  text += "Memory is exact, library workspaces apart.\n\n";
  for (const RankGroupReport& group : report.groups) text += describe_group(group) + "\n";
  return text + to_text(report.plan, report.unit_names);
}

std::string to_json(const PlanReport& report) {
  Json groups = Json::array();
  for (const RankGroupReport& group : report.groups) groups.push_back(group_json(group, report));
  const Json json = {{"ranks", report.num_ranks},
                     {"precision", report.config.precision.mode},
                     {"parameters", report.num_parameters},
                     {"global_batch", report.config.train.global_batch},
                     {"micro_batch", report.config.train.micro_batch},
                     {"zero", report.config.parallel.zero},
                     {"recompute_every", report.config.parallel.recompute_every},
                     {"reduction", report.config.parallel.reduction},
                     {"units", report.unit_names},
                     {"groups", groups}};
  return json.dump(1) + "\n";
}

}  // namespace trireme

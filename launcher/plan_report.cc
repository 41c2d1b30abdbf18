#include "launcher/plan_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "launcher/accumulation.h"
#include "launcher/build.h"
#include "launcher/device.h"
#include "launcher/image_data.h"
#include "parallel/accumulation_choice.h"
#include "parallel/block_work.h"
#include "parallel/comm/recording.h"
#include "parallel/plan_text.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

/// All but workspaces, which are measured only.
std::vector<MemoryCategory> predicted_categories() {
  std::vector<MemoryCategory> categories;
  for (int c = 0; c < kNumMemoryCategories; ++c) {
    const auto category = static_cast<MemoryCategory>(c);
    if (category != MemoryCategory::kWorkspace) categories.push_back(category);
  }
  return categories;
}

Json memory_json(const MemoryCounts& counts) {
  Json json;
  for (const MemoryCategory category : predicted_categories()) {
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

/// Bytes sent by actions of each kind, and by calls of each kind, without those that send nothing.
std::map<std::string, std::int64_t> sent_by_action(const StepPrediction& prediction) {
  std::map<std::string, std::int64_t> sent;
  for (std::size_t i = 0; i < prediction.actions.size(); ++i) {
    const std::int64_t bytes = prediction.actions[i].sent_bytes;
    if (bytes > 0) sent[std::string(name(prediction.plan.actions[i].kind))] += bytes;
  }
  return sent;
}

std::map<std::string, std::int64_t> sent_by_call(const StepPrediction& prediction) {
  std::map<std::string, std::int64_t> sent;
  for (int c = 0; c < kNumCallKinds; ++c) {
    const std::int64_t bytes = prediction.sent_by_call[static_cast<std::size_t>(c)];
    if (bytes > 0) sent[std::string(name(static_cast<CallKind>(c)))] = bytes;
  }
  return sent;
}

Json group_json(const RankGroupReport& group, const PlanReport& report) {
  const StepPrediction& prediction = group.prediction;
  Json actions = Json::array();
  for (std::size_t i = 0; i < prediction.plan.actions.size(); ++i) {
    Json action = action_json(prediction.plan.actions[i], report.unit_names);
    action["peak_bytes"] = prediction.actions[i].alive.total();
    action["comm_bytes"] = prediction.actions[i].sent_bytes;
    actions.push_back(action);
  }
  Json moments;
  for (const MemoryCategory category : predicted_categories()) {
    moments[std::string(name(category))] = prediction.peak_action(category);
  }
  return {{"ranks", group.ranks},
          {"peak_bytes", prediction.memory.peak_total},
          {"peak_action", prediction.peak_action()},
          {"memory", memory_json(prediction.memory.peak)},
          {"memory_peak_actions", moments},
          {"memory_at_peak", memory_json(prediction.memory.at_peak)},
          {"state_bytes", prediction.state_bytes()},
          {"comm_bytes", prediction.sent_bytes},
          {"comm_bytes_by_action", sent_by_action(prediction)},
          {"comm_bytes_by_call", sent_by_call(prediction)},
          {"actions", actions}};
}

Json fit_json(const MemoryFit& fit) {
  Json json = {{"fits", fit.fits()},
               {"limit_bytes", fit.limit.bytes},
               {"limit_source", fit.limit.source},
               {"peak_bytes", fit.peak_bytes},
               {"text", to_text(fit)}};
  if (fit.remedy) {
    json["remedy"] = {{"changes", fit.remedy->changes},
                      {"ranks", fit.remedy->num_ranks},
                      {"zero", fit.remedy->config.parallel.zero},
                      {"recompute_every", fit.remedy->config.parallel.recompute_every},
                      {"micro_batch", fit.remedy->config.train.micro_batch},
                      {"peak_bytes", fit.remedy->peak_bytes}};
  }
  return json;
}

std::string describe_traffic(const StepPrediction& prediction) {
  if (prediction.sent_bytes == 0) return "";
  const auto list = [](const std::map<std::string, std::int64_t>& sent) {
    std::string text;
    for (const auto& [kind, bytes] : sent) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kind, format_bytes(bytes));
    }
    return text;
  };
  return fmt::format("  sent by {}; as {}\n", list(sent_by_action(prediction)),
                     list(sent_by_call(prediction)));
}

std::string describe_group(const RankGroupReport& group) {
  const StepPrediction& prediction = group.prediction;
  const MemoryStats& memory = prediction.memory;
  std::string text = fmt::format(
      "{} {}: {} at the peak, in {}; {} sent a step\n", group.ranks.size() == 1 ? "rank" : "ranks",
      format_ranks(group.ranks), format_bytes(memory.peak_total),
      prediction.describe(prediction.peak_action()), format_bytes(prediction.sent_bytes));
  text += fmt::format("  {:<15} {:>20} {:>20}  own peak in\n", "bytes", "own peak", "at the peak");
  for (const MemoryCategory category : predicted_categories()) {
    text += fmt::format(
        "  {:<15} {:>20} {:>20}  {}\n", name(category), memory.peak[category], memory.at_peak[category],
        memory.peak[category] > 0 ? prediction.describe(prediction.peak_action(category)) : "-");
  }
  text += fmt::format("  state when the optimizer steps: {} (parameters, gradients and optimizer)\n",
                      format_bytes(prediction.state_bytes()));
  return text + describe_traffic(prediction);
}

std::vector<AccumulationReport> other_accumulations(const PlanReport& report,
                                                    const std::shared_ptr<const BlockList>& blocks,
                                                    EngineOptions options, int rank) {
  options.planning = Planning::kOwnRank;
  const bool keeps_gradients = options.accumulate_unsharded, keeps_parameters = options.keep_gathered;
  std::vector<AccumulationReport> others;
  for (const bool keep_gathered : {true, false}) {
    for (const bool accumulate_unsharded : {true, false}) {
      const bool other_gradients = accumulate_unsharded != keeps_gradients;
      const bool other_parameters = keep_gathered != keeps_parameters;
      if (!other_gradients && !other_parameters) continue;
      if (other_gradients && !has_gradients_to_keep(options, report.num_ranks)) continue;
      if (other_parameters && !has_parameters_to_keep(options, report.num_ranks)) continue;
      options.accumulate_unsharded = accumulate_unsharded;
      options.keep_gathered = keep_gathered;
      const StepPrediction other =
          predict_step(blocks, options, sample_spec(report.config), report.num_ranks, rank);
      others.push_back({accumulate_unsharded, keep_gathered, other.memory.peak_total, other.sent_bytes});
    }
  }
  return others;
}

std::string describe_others(const PlanReport& report) {
  std::string text;
  for (const AccumulationReport& other : report.other_accumulations) {
    text += fmt::format(
        "with parallel.accumulate_unsharded = {}{}: {} at the peak, {} sent a step\n",
        other.accumulate_unsharded,
        report.config.parallel.zero == 3 ? fmt::format(" and keep_gathered = {}", other.keep_gathered) : "",
        format_bytes(other.peak_bytes), format_bytes(other.sent_bytes));
  }
  return text;
}

std::int64_t peak_of_stage(const PlanReport& report, int stage) {
  std::int64_t peak = 0;
  for (const RankGroupReport& group : report.groups) {
    if (report.plan.mesh.place(group.ranks[0]).stage != stage) continue;
    peak = std::max(peak, group.prediction.memory.peak_total);
  }
  return peak;
}

/// What the chunks' shares of the time are computed from, and in which words.
std::pair<std::vector<double>, std::string> time_costs_of(const JobConfig& config, const BlockList& blocks,
                                                          const BlockProfile* profile) {
  if (profile == nullptr) {
    return {count_block_work(blocks, sample_spec(config)),
            "shares of the time are those of the arithmetic; --times FILE measures them"};
  }
  return {time_costs(profile->blocks), fmt::format("shares of the time as measured on {}, {} thread(s)",
                                                   profile->device, profile->threads)};
}

}  // namespace

MemoryLimit planned_limit(const JobConfig& config, int num_ranks, int ranks_per_machine) {
  TRIREME_CHECK(ranks_per_machine <= num_ranks, "--ranks-per-machine {} is more than --ranks {}",
                ranks_per_machine, num_ranks);
  const int sharing = ranks_per_machine > 0 ? ranks_per_machine : num_ranks;
  MemoryLimit limit = memory_limit(config, {DeviceType::kCpu, 0}, sharing);
  if (config.parallel.memory_limit == 0 && num_ranks > 1) {
    limit.source += "; --ranks-per-machine for another placement";
  }
  return limit;
}

PlanReport make_plan_report(const JobConfig& given, int num_ranks, int ranks_per_machine,
                            const BlockProfile* profile) {
  const int data = data_ranks(given.parallel, num_ranks);
  check_batch(given.train, data);
  const auto blocks = build_blocks(given.model);
  const MemoryLimit limit = planned_limit(given, num_ranks, ranks_per_machine);
  const JobConfig config = with_accumulation(given, blocks, num_ranks, limit);
  EngineOptions options = engine_options(config);
  options.device = {DeviceType::kMeta};
  options.memory_limit = std::nullopt;
  const auto comm = std::make_shared<RecordingCommunicator>(0, num_ranks);
  expect_mesh_splits(*comm, {.data = data, .pipeline = options.pipeline.stages});
  const Engine engine(blocks, comm, options);  // plans, validates
  PlanReport report{.config = config,
                    .num_ranks = num_ranks,
                    .num_parameters = engine.layout().num_parameters,
                    .note = note_on_device(config),
                    .plan = engine.plan()};
  for (const auto& block : *blocks) report.unit_names.push_back(block->name());
  const BatchLayout batch{
      .global_batch = config.train.global_batch, .micro_batch = config.train.micro_batch, .data_ranks = data};
  for (const std::vector<int>& ranks : classes_of_equal_needs(batch, engine.groups().mesh)) {
    report.groups.push_back(
        {.ranks = ranks,
         .prediction = predict_step(blocks, options, sample_spec(config), num_ranks, ranks[0])});
  }
  if (engine.stages().pipeline > 1) {
    std::vector<double> costs;
    std::tie(costs, report.time_source) = time_costs_of(config, *blocks, profile);
    report.chunks = make_chunk_reports(*blocks, engine.stages(), costs);
    for (ChunkReport& chunk : report.chunks) chunk.peak_bytes = peak_of_stage(report, chunk.stage);
  }
  const auto largest = std::ranges::max_element(
      report.groups, {}, [](const RankGroupReport& group) { return group.prediction.memory.peak_total; });
  report.fit = fit_memory(config, blocks, largest->prediction, num_ranks, limit);
  report.other_accumulations = other_accumulations(report, blocks, options, largest->ranks[0]);
  return report;
}

namespace {

std::string describe_model(const JobConfig& job) {
  if (is_image_model(job.model)) {
    return fmt::format("{} classes, images of {} x {}", job.model.classes, job.data.image_size,
                       job.data.image_size);
  }
  return fmt::format("{} layers, {} wide, {} heads, vocabulary {}, context {}", job.model.layers,
                     job.model.hidden, job.model.heads, job.model.vocab, job.model.seq_len);
}

}  // namespace

std::string to_text(const PlanReport& report) {
  const JobConfig& job = report.config;
  std::string text = fmt::format("{}: {} parameters in {} units ({})\n", job.model.name,
                                 report.num_parameters, report.unit_names.size(), describe_model(job));
  text +=
      fmt::format("{} rank(s); a step is {} samples, {} micro-batch(es) of {} on each rank\n",
                  report.num_ranks, job.train.global_batch,
                  job.train.global_batch / job.train.micro_batch / data_ranks(job.parallel, report.num_ranks),
                  job.train.micro_batch);
  if (!report.chunks.empty()) {
    text += fmt::format("{} stages x {} data rank(s), schedule {}\n", job.parallel.pipeline,
                        data_ranks(job.parallel, report.num_ranks), job.parallel.schedule);
    text += to_text(report.chunks) + report.time_source + "\n";
  }
  text += fmt::format("{}, {} reduction, zero {}, recompute every {}\n", job.precision.mode,
                      job.parallel.reduction, job.parallel.zero, job.parallel.recompute_every);
  const std::string accumulation = describe_accumulation(job, report.num_ranks);
  if (!accumulation.empty()) text += accumulation + "\n";
  if (!report.note.empty()) text += report.note + "\n";
  text += "Memory is exact, library workspaces apart.\n\n";
  for (const RankGroupReport& group : report.groups) text += describe_group(group);
  text += describe_others(report) + to_text(report.fit) + "\n\n";
  return text + to_text(report.plan, report.unit_names);
}

std::string to_json(const PlanReport& report) {
  Json groups = Json::array();
  for (const RankGroupReport& group : report.groups) groups.push_back(group_json(group, report));
  Json chunks = Json::array();
  for (const ChunkReport& chunk : report.chunks) {
    chunks.push_back({{"stage", chunk.stage},
                      {"first_unit", chunk.first_unit},
                      {"last_unit", chunk.last_unit},
                      {"parameters", chunk.num_parameters},
                      {"time_share", chunk.time_share},
                      {"peak_bytes", chunk.peak_bytes}});
  }
  const Json json = {{"ranks", report.num_ranks},
                     {"precision", report.config.precision.mode},
                     {"parameters", report.num_parameters},
                     {"global_batch", report.config.train.global_batch},
                     {"micro_batch", report.config.train.micro_batch},
                     {"zero", report.config.parallel.zero},
                     {"accumulate_unsharded", *report.config.parallel.accumulate_unsharded},
                     {"keep_gathered", *report.config.parallel.keep_gathered},
                     {"recompute_every", report.config.parallel.recompute_every},
                     {"reduction", report.config.parallel.reduction},
                     {"pipeline", report.config.parallel.pipeline},
                     {"schedule", report.config.parallel.schedule},
                     {"stages", chunks},
                     {"time_shares", report.time_source},
                     {"note", report.note},
                     {"units", report.unit_names},
                     {"fit", fit_json(report.fit)},
                     {"groups", groups}};
  return json.dump(1) + "\n";
}

}  // namespace trireme

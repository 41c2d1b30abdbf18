#include <nlohmann/json.hpp>

#include "launcher/config/field_keys.h"
#include "launcher/report/layout_json.h"
#include "launcher/report/placement.h"
#include "launcher/report/plan_details.h"
#include "launcher/report/plan_report.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

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

Json places_json(const PlanReport& report) {
  Json places = Json::array();
  for (int rank = 0; rank < report.num_ranks; ++rank) {
    const Coord coord = report.plan.mesh.coord(rank);
    Json place = {{"rank", rank}};
    for (const Axis axis : {Axis::kPipeline, Axis::kData, Axis::kTensor}) {
      place[std::string(name(axis))] = coord[axis];
    }
    place["host"] = report.hosts[static_cast<std::size_t>(rank)];
    places.push_back(place);
  }
  return places;
}

std::string describe_time_source(const PlanReport& report) {
  if (report.chunks.empty()) return "";
  return report.measured_on.empty()
             ? "shares of the time are those of the arithmetic; --times FILE measures them"
             : "shares of the time as measured on " + report.measured_on;
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
          {"workspace_bytes", prediction.memory.peak[MemoryCategory::kWorkspace]},
          {"device_peak_bytes", prediction.memory.device_peak},
          {"memory", memory_json(prediction.memory.peak)},
          {"memory_peak_actions", moments},
          {"memory_at_peak", memory_json(prediction.memory.at_peak)},
          {"state_bytes", prediction.state_bytes()},
          {"comm_bytes", prediction.sent_bytes},
          {"comm_bytes_by_action", sent_by_action(prediction)},
          {"comm_bytes_by_call", sent_by_call(prediction)},
          {"actions", actions}};
}

Json fit_json(const JobFit& fit) {
  Json json = {{"fits", fit.fits()},
               {"limit_bytes", fit.limit.bytes},
               {"limit_source", fit.limit.source},
               {"peak_bytes", fit.peak_bytes},
               {"text", to_text(fit)}};
  if (fit.remedy) {
    const EngineOptions& options = fit.remedy->job.options;
    Json changes = Json::array();
    for (const Change& change : fit.remedy->changes) changes.push_back(describe_as_key(change));
    Json& remedy = json["remedy"] = {{"changes", changes}, {"ranks", fit.remedy->job.num_ranks}};
    remedy.update(layout_json(options.layout));
    remedy.update({{"micro_batch", options.micro_batch}, {"peak_bytes", fit.remedy->peak_bytes}});
  }
  return json;
}

Json time_json(const PlanTime& time) {
  return {{"cluster", time.cluster},
          {"device", time.device},
          {"step_ms", time.price.step_ms},
          {"samples_per_s", time.samples_per_s},
          {"tokens_per_s", time.tokens_per_s},
          {"mfu", time.price.mfu},
          {"compute_ms", time.price.compute_ms},
          {"bubble_share", time.price.bubble_share},
          {"exposed_communication_ms", time.price.exposed_ms},
          {"steps", time.steps},
          {"hours", time.hours},
          {"cost", time.cost}};
}

}  // namespace

nlohmann::ordered_json to_json(const PlanReport& report) {
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
  Json json = {{"ranks", report.num_ranks},
               {"precision", to_word(report.config.precision.mode)},
               {"parameters", report.num_parameters},
               {"global_batch", report.config.train.global_batch},
               {"micro_batch", report.config.train.micro_batch}};
  json.update(layout_json(report.config.parallel.layout));
  json.update({{"reduction", to_word(report.config.parallel.reduction)},
               {"exchange", word_of(report.exchange)},
               {"exchange_note", report.exchange.why_flat},
               {"tensor_warning", report.tensor_warning},
               {"places", places_json(report)},
               {"stages", chunks},
               {"pipeline_cut", to_word(report.config.parallel.pipeline_cut)},
               {"cut_note", report.cut_note},
               {"time_shares", describe_time_source(report)},
               {"bubble_share", report.bubble_share},
               {"note", report.note},
               {"context", report.context},
               {"units", report.unit_names},
               {"fit", fit_json(report.fit)},
               {"groups", groups}});
  if (const auto memory = partner_memory(report)) {
    json["partner"] = {{"folder", report.config.checkpoint.partner_folder},
                       {"host_bytes", memory->kept},
                       {"host_bytes_while_copying", memory->while_copying},
                       {"host_bytes_while_restoring", memory->while_restoring}};
  }
  if (report.time) json["time"] = time_json(*report.time);
  return json;
}

}  // namespace trireme

#include "launcher/report/roofline_report.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "launcher/families/model_family.h"
#include "launcher/job/build.h"
#include "launcher/render/text_table.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::string number(double value) {
  return value == 0 ? "-" : three_digits(value);
}

/// Megabytes (1e6), as in published rates; GFLOP; microseconds per card.
std::vector<std::string> cost_cells(const OpCost& cost, const auto& seconds_on) {
  std::vector<std::string> cells{number(cost.bytes * 1e-6), number(cost.operations * 1e-9)};
  for (const CardRates& card : kCards) cells.push_back(number(seconds_on(card) * 1e6));
  return cells;
}

std::vector<std::string> header(std::vector<std::string> first) {
  first.insert(first.end(), {"MB", "GFLOP"});
  for (const CardRates& card : kCards) first.push_back(fmt::format("{} us", card.name));
  return first;
}

void append(std::vector<std::string>& cells, const std::vector<std::string>& more) {
  cells.insert(cells.end(), more.begin(), more.end());
}

/// "h.0 to h.11".
std::string names_of(const RooflinePart& part) {
  if (part.units.empty()) return "the whole model";
  return part.units.size() == 1 ? part.units[0]
                                : fmt::format("{} to {}", part.units.front(), part.units.back());
}

std::string describe_block(const RooflinePart& part) {
  TextRows rows{header({"pass", "call", "operands", "n"})};
  for (const RooflineRow& row : part.rows) {
    const auto calls = static_cast<double>(row.num_calls);
    std::vector<std::string> cells{std::string(pass_name(row.spent)), std::string(row.op), row.operands,
                                   std::to_string(row.num_calls)};
    append(cells,
           cost_cells({row.cost.bytes * calls, row.cost.operations * calls},
                      [&](const CardRates& card) { return calls * roofline_seconds(row.cost, card); }));
    rows.push_back(std::move(cells));
  }
  std::vector<std::string> sum{"sum", "", "", ""};
  append(sum, cost_cells(part.cost(), [&](const CardRates& card) { return part.seconds(card); }));
  rows.push_back(std::move(sum));
  return to_text(std::move(rows), {.num_left = 3, .num_kept = 7, .most_rows = 200});
}

std::string describe_parts(const Roofline& roofline) {
  TextRows rows{header({"part of the step", "blocks"})};
  for (const RooflinePart& part : roofline.parts) {
    std::vector<std::string> cells{names_of(part), std::to_string(part.units.size())};
    const auto times = static_cast<double>(part.num_units());
    const OpCost cost = part.cost();
    append(cells, cost_cells({cost.bytes * times, cost.operations * times},
                             [&](const CardRates& card) { return times * part.seconds(card); }));
    rows.push_back(std::move(cells));
  }
  std::vector<std::string> sum{"sum", ""};
  append(sum, cost_cells(roofline.cost(), [&](const CardRates& card) { return roofline.seconds(card); }));
  rows.push_back(std::move(sum));
  return to_text(std::move(rows), {.num_kept = 6, .most_rows = 200});
}

Json seconds_json(const auto& seconds_on) {
  Json json;
  for (const CardRates& card : kCards) json[std::string(card.name)] = seconds_on(card);
  return json;
}

Json part_json(const RooflinePart& part) {
  Json rows = Json::array();
  for (const RooflineRow& row : part.rows) {
    rows.push_back(
        {{"pass", pass_name(row.spent)},
         {"call", row.op},
         {"operands", row.operands},
         {"calls", row.num_calls},
         {"bytes", row.cost.bytes},
         {"operations", row.cost.operations},
         {"seconds", seconds_json([&](const CardRates& card) { return roofline_seconds(row.cost, card); })}});
  }
  return {{"blocks", part.units}, {"calls_of_one", rows}};
}

}  // namespace

std::string_view pass_name(TimeSpent spent) {
  switch (spent) {
    case TimeSpent::kForward:
      return "forward";
    case TimeSpent::kRecompute:
      return "recompute";
    case TimeSpent::kBackward:
      return "backward";
    case TimeSpent::kBackwardWeight:
      return "backward of weights";
    case TimeSpent::kUpdate:
      return "update";
    case TimeSpent::kExchange:
      return "end of step";
  }
  return "";
}

RooflineReport make_roofline_report(const JobConfig& config) {
  const ModelFamily& family = family_of(config.model);
  batch_layout(config, 1);  // throws if one rank cannot run the batch
  const PlannedJob job = planned_job(config, build_blocks(config.model), 1);
  const TrainSection& train = config.train;
  return {.job = fmt::format("{}: {}; {}; {} samples a step, micro-batches of {}", config.model.name,
                             family.describe(config), to_word(config.precision.mode), train.global_batch,
                             train.micro_batch),
          .unit = std::string(family.data.throughput_unit),
          .units_a_step = static_cast<double>(train.global_batch * job.sample.target.num_elems()),
          .roofline = make_roofline(record_step(job))};
}

std::string to_text(const RooflineReport& report) {
  const RooflinePart& block = report.roofline.block();
  std::string text = report.job + "\n";
  text +=
      wrapped(fmt::format("The least time of each call: {:.0f} % of the bandwidth or {:.0f} % of the product "
                          "rate of the data sheet, "
                          "whichever takes longer; launches and everything between calls for nothing.",
                          100 * kBandwidthShare, 100 * kArithmeticShare));
  text += fmt::format("\none block of {} ({})\n{}\n{}\n", block.units.size(), names_of(block),
                      describe_block(block), describe_parts(report.roofline));
  for (const CardRates& card : kCards) {
    text += fmt::format("{}: {:.2f} ms a step, {:.0f} {}/s\n", card.name, 1e3 * report.roofline.seconds(card),
                        report.units_per_s(card), report.unit);
  }
  return text;
}

nlohmann::ordered_json to_json(const RooflineReport& report) {
  Json json = {{"job", report.job}, {"unit", report.unit}, {"units_a_step", report.units_a_step}};
  json["parts"] = Json::array();
  for (const RooflinePart& part : report.roofline.parts) json["parts"].push_back(part_json(part));
  json["step_seconds"] = seconds_json([&](const CardRates& card) { return report.roofline.seconds(card); });
  json[report.unit + "_per_s"] =
      seconds_json([&](const CardRates& card) { return report.units_per_s(card); });
  return json;
}

}  // namespace trireme

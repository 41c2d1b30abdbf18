#include "launcher/report/scale_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>

#include "launcher/config/field_keys.h"
#include "launcher/render/text_table.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

double samples_per_rank_s(const ForeseenStep& step, std::int64_t global_batch) {
  return static_cast<double>(global_batch) / step.price.step_ms * 1e3 / step.num_ranks;
}

std::vector<std::string> cells(const std::optional<ForeseenStep>& step, double efficiency) {
  if (!step) return {"-", "-", "-", "-"};
  return {fmt::format("{:.4g}", step->price.step_ms), fmt::format("{:.1f}", 100 * efficiency),
          fmt::format("{:.1f}", 100 * step->price.mfu),
          short_bytes(step->peak_bytes) + (step->fits() ? "" : " !")};
}

nlohmann::ordered_json json_of(const std::optional<ForeseenStep>& step, double efficiency) {
  if (!step) return nullptr;
  return {{"step_ms", step->price.step_ms},
          {"efficiency", efficiency},
          {"mfu", step->price.mfu},
          {"peak_bytes", step->peak_bytes},
          {"fits", step->fits()}};
}

bool fits(const std::optional<ForeseenStep>& step) {
  return step && step->fits();
}

/// One line for each number of ranks without a layout, with the reason.
std::string refusals(const ScaleReport& report) {
  std::string text;
  const auto add = [&](const ScaleRow& row, const char* kind, const std::string& why) {
    if (!why.empty()) text += fmt::format("{} ranks, {}: {}\n", row.num_ranks, kind, why);
  };
  for (const ScaleRow& row : report.rows) {
    add(row, "strong", row.strong_refusal);
    add(row, "weak", row.weak_refusal == row.strong_refusal ? "" : row.weak_refusal);
  }
  return text;
}

}  // namespace

ScaleReport scale_job(const JobConfig& job, const ClusterOfRanks& cluster_of, int first, int last,
                      const TellProgress& on_progress) {
  ScaleReport report{.global_batch = job.train.global_batch};
  std::exception_ptr refusal;
  const auto foresee = [&](const JobConfig& config, int ranks,
                           std::string& why) -> std::optional<ForeseenStep> {
    try {
      const ClusterChoice cluster = cluster_of(ranks);
      ForeseenStep step = foresee_step(config, cluster, ranks, on_progress);
      report.cluster = cluster.cluster.name;
      if (report.devices.insert(cluster.device).second)
        report.device += (report.device.empty() ? "" : ", ") + cluster.device;
      return step;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidInput && error.code() != ErrorCode::kUnsupported) throw;
      refusal = std::current_exception();
      why = with_keys(error.what());
      return std::nullopt;
    }
  };
  int first_ranks = 0;  // first number of ranks with a layout
  double strong_at_first = 0, weak_at_first = 0;
  for (const int ranks : doublings(first, last)) {
    ScaleRow row{.num_ranks = ranks};
    row.strong = foresee(job, ranks, row.strong_refusal);
    if (first_ranks == 0 && row.strong) {
      first_ranks = ranks;
      report.first_weak_batch = job.train.global_batch;
    }
    if (row.strong) {
      const double rate = samples_per_rank_s(*row.strong, job.train.global_batch);
      if (strong_at_first == 0) strong_at_first = rate;
      row.strong_efficiency = rate / strong_at_first;
    }
    if (first_ranks > 0) {
      JobConfig grown = job;
      grown.train.global_batch = report.first_weak_batch * (ranks / first_ranks);
      row.weak = foresee(grown, ranks, row.weak_refusal);
      if (row.weak) {
        const double rate = samples_per_rank_s(*row.weak, grown.train.global_batch);
        if (weak_at_first == 0) weak_at_first = rate;
        row.weak_efficiency = rate / weak_at_first;
      }
    }
    report.rows.push_back(std::move(row));
  }
  if (first_ranks == 0) std::rethrow_exception(refusal);
  return report;
}

bool ScaleReport::fits_anywhere() const {
  return std::ranges::any_of(rows, [](const ScaleRow& row) { return fits(row.strong) || fits(row.weak); });
}

std::string to_text(const ScaleReport& report) {
  TextRows rows{{"ranks", "ms/step", "efficiency %", "MFU %", "memory", "weak: ms/step", "efficiency %",
                 "MFU %", "memory"}};
  bool all_fit = true;
  for (const ScaleRow& row : report.rows) {
    std::vector<std::string> line{fmt::format("{}", row.num_ranks)};
    for (const auto& part :
         {cells(row.strong, row.strong_efficiency), cells(row.weak, row.weak_efficiency)}) {
      line.insert(line.end(), part.begin(), part.end());
    }
    rows.push_back(std::move(line));
    all_fit = all_fit && (!row.strong || row.strong->fits()) && (!row.weak || row.weak->fits());
  }
  std::string text = wrapped(fmt::format(
      "on {} ({}), predicted; strong scaling: {} samples a step on all ranks; weak: the batch grows with the "
      "ranks, from {}; efficiency: samples/s of a rank over those of the first row",
      report.cluster, report.device, report.global_batch, report.first_weak_batch));
  text += to_text(rows, {.num_left = 1, .num_kept = 9, .most_rows = 32});
  if (!all_fit) text += "!: more than a rank has\n";
  return text + refusals(report);
}

nlohmann::ordered_json to_json(const ScaleReport& report) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ScaleRow& row : report.rows) {
    rows.push_back({{"ranks", row.num_ranks},
                    {"strong", json_of(row.strong, row.strong_efficiency)},
                    {"weak", json_of(row.weak, row.weak_efficiency)}});
    if (!row.strong_refusal.empty()) rows.back()["strong_refusal"] = row.strong_refusal;
    if (!row.weak_refusal.empty()) rows.back()["weak_refusal"] = row.weak_refusal;
  }
  return {{"cluster", report.cluster},
          {"device", report.device},
          {"global_batch", report.global_batch},
          {"scale", rows}};
}

LinePlot plot_of(const ScaleReport& report) {
  LinePlot plot{.title = fmt::format("Scaling on {} ({}), predicted", report.cluster, report.device),
                .x_label = "ranks",
                .y_label = "efficiency, %",
                .series = {{"strong", {}}, {"weak", {}}}};
  for (const ScaleRow& row : report.rows) {
    if (row.strong) plot.series[0].points.emplace_back(row.num_ranks, 100 * row.strong_efficiency);
    if (row.weak) plot.series[1].points.emplace_back(row.num_ranks, 100 * row.weak_efficiency);
  }
  return plot;
}

}  // namespace trireme

#include "launcher/report/prediction_error.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "launcher/render/text_table.h"

namespace trireme {
namespace {

constexpr std::size_t kWorstRuns = 10;
constexpr std::size_t kMostGroups = 24;

struct ErrorStatistics {
  double mean = 0, median = 0, worst = 0, bias = 0;
};

ErrorStatistics statistics(std::span<const double> errors) {
  std::vector<double> sorted(errors.begin(), errors.end());
  ErrorStatistics result;
  const double count = static_cast<double>(errors.size());
  result.bias = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  for (double& error : sorted) error = std::abs(error);
  std::sort(sorted.begin(), sorted.end());
  result.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  const std::size_t half = sorted.size() / 2;
  result.median = sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  result.worst = sorted.back();
  return result;
}

using GroupName = std::function<std::string(const TrainingRun&)>;

void add_groups(TextRows& rows, const std::string& title, std::span<const TrainingRun> runs,
                std::span<const double> errors, const GroupName& name) {
  std::map<std::string, std::vector<double>> groups;
  for (std::size_t i = 0; i < runs.size(); ++i) groups[name(runs[i])].push_back(errors[i]);
  if (groups.size() < 2 || groups.size() > kMostGroups) return;
  for (const auto& [group, members] : groups) {
    const ErrorStatistics s = statistics(members);
    rows.push_back({title, group, fmt::format("{}", members.size()), fmt::format("{:.1f}", 100 * s.mean),
                    fmt::format("{:+.1f}", 100 * s.bias), fmt::format("{:.1f}", 100 * s.worst)});
  }
}

}  // namespace

std::string error_summary(std::span<const double> errors) {
  if (errors.empty()) return "no run";
  const ErrorStatistics s = statistics(errors);
  return fmt::format("mean {:.2f} %, median {:.2f} %, worst {:.1f} % of {} runs", 100 * s.mean,
                     100 * s.median, 100 * s.worst, errors.size());
}

std::string error_tables(std::span<const TrainingRun> runs, std::span<const double> errors,
                         std::span<const std::string> lines) {
  TextRows rows = {{"by", "", "runs", "mean %", "bias %", "worst %"}};
  add_groups(rows, "model", runs, errors,
             [](const auto& run) { return fmt::format("{:3} layers x {:5}", run.layers, run.hidden); });
  add_groups(rows, "ranks", runs, errors, [](const auto& run) { return fmt::format("{:4}", run.ranks); });
  add_groups(rows, "device", runs, errors, [](const auto& run) { return run.device; });
  add_groups(rows, "precision", runs, errors, [](const auto& run) { return run.precision; });
  add_groups(rows, "tensor x pipeline", runs, errors,
             [](const auto& run) { return fmt::format("{:2} x {:2}", run.tensor, run.pipeline); });
  add_groups(rows, "micro-batch", runs, errors,
             [](const auto& run) { return fmt::format("{:3}", run.micro_batch); });
  const TableShape shape{.num_left = 2, .num_kept = 6, .most_rows = 1000};
  std::string text = to_text(rows, shape);
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return std::abs(errors[a]) > std::abs(errors[b]); });
  text += "Worst runs:\n";
  for (std::size_t i = 0; i < std::min(order.size(), kWorstRuns); ++i) {
    text += fmt::format("  {:+6.1f} %  {}\n", 100 * errors[order[i]], lines[order[i]]);
  }
  return text;
}

}  // namespace trireme

#include "launcher/cluster/runs_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>

#include "launcher/config/nearest_name.h"
#include "runtime/base/error.h"
#include "runtime/base/regular_file.h"

namespace trireme {
namespace {

struct CountColumn {
  const char* name;
  int TrainingRun::*value;
};

constexpr CountColumn kCounts[] = {
    {"gpus", &TrainingRun::ranks},
    {"global_batch", &TrainingRun::global_batch},
    {"micro_batch", &TrainingRun::micro_batch},
    {"seq_len", &TrainingRun::seq_len},
    {"layers", &TrainingRun::layers},
    {"hidden", &TrainingRun::hidden},
    {"heads", &TrainingRun::heads},
    {"vocab", &TrainingRun::vocab},
    {"tensor", &TrainingRun::tensor},
    {"data", &TrainingRun::data},
    {"pipeline", &TrainingRun::pipeline},
};
constexpr const char* kPredicted = "predicted_ms";
const std::vector<std::string> kOptional = {"zero", "recompute", "chunks", "step_ms"};

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line + ",");
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

std::vector<std::string> required_columns() {
  std::vector<std::string> names = {"gpu", "precision"};
  for (const CountColumn& column : kCounts) names.push_back(column.name);
  return names;
}

/// Column name -> index, after checks.
std::map<std::string, std::size_t> read_header(const std::string& file, const std::string& header) {
  std::map<std::string, std::size_t> columns;
  const std::vector<std::string> cells = split(header);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    TRIREME_CHECK(columns.emplace(cells[i], i).second, "{}:1: column {} is there twice", file, cells[i]);
  }
  for (const std::string& name : required_columns()) {
    TRIREME_CHECK(columns.contains(name), "{}:1: there is no column {}; the nearest is {}", file, name,
                  nearest_name(name, cells));
  }
  constexpr int kTypo = 2;
  for (const std::string& cell : cells) {
    for (const std::string& name : kOptional) {
      TRIREME_CHECK(columns.contains(name) || edit_distance(cell, name) > kTypo,
                    "{}:1: unknown column {}; did you mean {}?", file, cell, name);
    }
  }
  return columns;
}

/// The cells of a row, parsed by their columns.
class Row {
 public:
  Row(const std::map<std::string, std::size_t>& columns, const std::string& line, std::string where)
      : columns_(columns), cells_(split(line)), where_(std::move(where)) {
    TRIREME_CHECK(cells_.size() == columns.size(), "{}: {} cells, the header has {}", where_, cells_.size(),
                  columns.size());
  }

  std::string text(const std::string& column) const {
    const auto found = columns_.find(column);
    return found == columns_.end() ? "" : cells_[found->second];
  }

  double number(const std::string& column, double low, double high) const {
    const std::string cell = text(column);
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    TRIREME_CHECK(error == std::errc() && end == cell.data() + cell.size() && value >= low && value <= high,
                  "{}, column {}: \"{}\" must be a number from {} to {}", where_, column, cell, low, high);
    return value;
  }

  int count(const std::string& column, int low = 1) const {
    const double value = number(column, low, 1e9);
    TRIREME_CHECK(value == std::floor(value), "{}, column {}: {} must be a whole number", where_, column,
                  value);
    return static_cast<int>(value);
  }

  const std::string& where() const { return where_; }

 private:
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string> cells_;
  std::string where_;
};

void check_names(const Row& row, const TrainingRun& run, const Cluster& cluster) {
  std::vector<std::string> devices;
  bool known = false;
  for (const ClusterDevice& device : cluster.devices) {
    devices.push_back(device.name);
    known = known || device.name == run.device;
  }
  TRIREME_CHECK(known, "{}, column gpu: the cluster has no device \"{}\"; the nearest is [devices.{}]",
                row.where(), run.device, nearest_name(run.device, devices));
  const std::vector<std::string> precisions = {"fp32", "tf32", "fp16", "bf16", "bf16-pure", "fp8"};
  TRIREME_CHECK(std::find(precisions.begin(), precisions.end(), run.precision) != precisions.end(),
                "{}, column precision: unknown \"{}\"; did you mean {}?", row.where(), run.precision,
                nearest_name(run.precision, precisions));
}

TrainingRun read_run(const Row& row, const Cluster& cluster, MeasuredSteps steps) {
  TrainingRun run{.device = row.text("gpu"), .precision = row.text("precision")};
  for (const CountColumn& column : kCounts) run.*column.value = row.count(column.name);
  if (!row.text("zero").empty()) run.zero = static_cast<int>(row.number("zero", 0, 3));
  if (!row.text("recompute").empty()) run.recompute = row.number("recompute", 0, 1) != 0;
  if (!row.text("chunks").empty()) run.chunks = row.count("chunks");
  TRIREME_CHECK(steps == MeasuredSteps::kMayLack || !row.text("step_ms").empty(),
                "{}, column step_ms: it is empty, and a run to calibrate with needs it", row.where());
  if (!row.text("step_ms").empty()) run.step_ms = row.number("step_ms", 1e-6, 1e12);
  TRIREME_CHECK(static_cast<double>(run.tensor) * run.data * run.pipeline == run.ranks,
                "{}, column gpus: {} is not tensor * data * pipeline = {} * {} * {}", row.where(), run.ranks,
                run.tensor, run.data, run.pipeline);
  TRIREME_CHECK(static_cast<double>(run.pipeline) * run.chunks <= run.layers,
                "{}, column pipeline: {} stages of {} chunk(s) are more than {} layers", row.where(),
                run.pipeline, run.chunks, run.layers);
  check_names(row, run, cluster);
  return run;
}

/// Refuses a run that cannot be priced: a precision without a peak, nodes without a link.
RunPrice price_run(const Row& row, const TrainingRun& run, const Cluster& cluster) {
  try {
    RunPrice price(run, cluster.framework);
    price.step_ms(cluster);
    return price;
  } catch (const Error& error) {
    throw Error(error.code(), "{}: {}", row.where(), error.what());
  }
}

bool next_line(std::istream& lines, std::string& line) {
  if (!std::getline(lines, line)) return false;
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

}  // namespace

RunsFile read_runs(const std::filesystem::path& file, const Cluster& cluster, BadRows bad_rows,
                   MeasuredSteps steps) {
  std::istringstream lines(read_text_file({.path = file, .what = "table of runs", .max_bytes = 1 << 28}));
  RunsFile result;
  TRIREME_CHECK(next_line(lines, result.header), "{}: the file is empty; its first line names the columns",
                file.string());
  const auto columns = read_header(file.string(), result.header);
  std::string line;
  for (int number = 2; next_line(lines, line); ++number) {
    if (line.empty()) continue;
    try {
      const Row row(columns, line, fmt::format("{}:{}", file.string(), number));
      const TrainingRun run = read_run(row, cluster, steps);
      result.prices.push_back(price_run(row, run, cluster));
      result.runs.push_back(run);
      result.lines.push_back(line);
    } catch (const Error& error) {
      if (bad_rows == BadRows::kRefuse) throw;
      result.skipped.push_back(error.what());
    }
  }
  TRIREME_CHECK(!result.runs.empty(), "{}: no row below the header is a run{}", file.string(),
                result.skipped.empty() ? "" : "; the first: " + result.skipped.front());
  return result;
}

std::vector<MeasuredStep> RunsFile::measured() const {
  std::vector<MeasuredStep> steps;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    steps.push_back(
        {.predicted_ms = [&price = prices[i]](const Cluster& cluster) { return price.step_ms(cluster); },
         .step_ms = runs[i].step_ms.value()});
  }
  return steps;
}

std::string to_csv(const RunsFile& file, const std::vector<double>& predicted_ms) {
  std::vector<std::string> header = split(file.header);
  const auto old = std::ranges::find(header, kPredicted) - header.begin();
  const auto with_last = [&](std::vector<std::string> cells, const std::string& last) {
    if (old < std::ssize(cells)) cells.erase(cells.begin() + old);
    return fmt::format("{},{}\n", fmt::join(cells, ","), last);
  };
  std::string text = with_last(std::move(header), kPredicted);
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    text += with_last(split(file.lines[i]), fmt::format("{:.6g}", predicted_ms[i]));
  }
  return text;
}

}  // namespace trireme

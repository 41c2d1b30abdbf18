#include "launcher/page/run_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "launcher/observe/rank_times.h"
#include "launcher/page/run_files.h"
#include "runtime/checkpoint/checkpoint_name.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr std::size_t kMaxHistoryBytes = 64 << 10;  // a supervisor writes about 500 bytes an attempt

/// Unix time of the last modification of a file or folder; 0 if it does not exist.
std::int64_t written_s(const fs::path& path) {
  const auto identity = FileIdentity::of(path);
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  return identity ? identity->modified_ns / kNsPerSecond : 0;
}

Json event(const char* kind, std::int64_t step, const std::string& text) {
  return {{"kind", kind}, {"step", step}, {"text", text}};
}

void add_checkpoints(const fs::path& folder, Json& events) {
  std::error_code error;
  for (fs::directory_iterator entry(folder / "checkpoints", error), end; !error && entry != end;
       entry.increment(error)) {
    const auto name = parse_checkpoint_name(entry->path().filename().string());
    if (!name || name->kind != CheckpointName::Kind::kFinal) continue;
    events.push_back(
        event("checkpoint", name->step, "checkpoint saved: " + entry->path().filename().string()));
    events.back()["time"] = written_s(entry->path());
  }
}

void add_ranges(const StepRanges& steps, const char* kind, const char* what, Json& events) {
  for (const auto& [first, last] : steps.ranges()) {
    events.push_back(event(kind, last,
                           first == last ? fmt::format("step {}: {}", first, what)
                                         : fmt::format("steps {} to {}: {}", first, last, what)));
  }
}

std::string text_of(const Json& line, const char* key) {
  return line.contains(key) && line[key].is_string() ? line[key].get<std::string>() : std::string();
}

/// Returns 0 for a missing value and for one beyond 2^53.
std::int64_t number_of(const Json& line, const char* key) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  if (!line.contains(key) || !line[key].is_number()) return 0;
  const auto number = line[key].get<double>();
  return std::abs(number) <= kMost ? static_cast<std::int64_t>(number) : 0;
}

/// Adds the event of one line of a supervisor's history; lines without text for a reader are skipped.
void add_supervisor_line(const Json& line, Json& events) {
  const std::string kind = text_of(line, "event");
  const std::int64_t attempt = number_of(line, "attempt");
  Json added;
  if (kind == "begin") {
    const std::int64_t first = number_of(line, "first_step");
    added = event(
        "restart", std::max<std::int64_t>(first - 1, 0),
        fmt::format("attempt {} starts at step {} on {} ranks", attempt, first, number_of(line, "ranks")));
    if (attempt <= 1) added["kind"] = "start";
  } else if (kind == "end") {
    const std::int64_t code = number_of(line, "exit_code");
    added =
        event(code == 0 ? "note" : "failure", number_of(line, "step"),
              fmt::format("attempt {} ended with exit code {} {}", attempt, code, text_of(line, "verdict")));
  } else if (!text_of(line, "what").empty()) {
    added = event(kind == "done" ? "note" : "warning", 0, kind + ": " + text_of(line, "what"));
  } else {
    return;
  }
  added["at"] = text_of(line, "time");
  events.push_back(std::move(added));
}

void add_supervisor(const fs::path& folder, Json& events) {
  std::istringstream lines(last_lines_within(folder, "supervisor.jsonl", kMaxHistoryBytes));
  for (std::string text; std::getline(lines, text);) {
    const Json line = parse_small_json<Json>(text);
    if (line.is_object()) add_supervisor_line(line, events);
  }
}

Json events_of(const RunReader& reader, const Json& summary) {
  Json events = Json::array();
  const RunCurves& curves = reader.curves();
  add_checkpoints(reader.folder(), events);
  add_supervisor(reader.folder(), events);
  add_ranges(curves.skipped, "skip", "update skipped: a gradient was not finite, or the step was a spike",
             events);
  add_ranges(curves.not_finite, "warning", "the loss is not finite", events);
  for (const std::int64_t step : curves.restarts)
    events.push_back(event("restart", step, fmt::format("the run began again at step {}", step)));
  if (const std::int64_t first = number_of(summary, "first_step"); first > 1)
    events.push_back(event("restart", first - 1, fmt::format("resumed at step {}", first)));
  if (const std::int64_t left_out = number_of(summary, "left_out_samples"); left_out > 0)
    events.push_back(
        event("warning", 0, fmt::format("{} samples could not be read and were left out", left_out)));
  if (reader.num_damaged_lines() > 0)
    events.push_back(event("warning", 0,
                           fmt::format("{}:{}: the line is damaged; metrics.jsonl has {} damaged line(s)",
                                       (reader.folder() / "metrics.jsonl").string(),
                                       reader.first_damaged_line(), reader.num_damaged_lines())));
  std::stable_sort(events.begin(), events.end(), [](const Json& a, const Json& b) {
    return a["step"].get<std::int64_t>() < b["step"].get<std::int64_t>();
  });
  return events;
}

Json ranks_of(const RunCurves& curves) {
  Json ranks = Json::array();
  if (curves.ranks.empty()) return ranks;
  std::vector<double> means;
  for (const RunCurves::RankTime& rank : curves.ranks) means.push_back(rank.mean_ms);
  const auto slowest = std::max_element(means.begin(), means.end()) - means.begin();
  for (std::size_t i = 0; i < means.size(); ++i) {
    ranks.push_back({{"rank", i},
                     {"step_ms", curves.ranks[i].last_ms},
                     {"mean_ms", means[i]},
                     {"excess_ms", above_the_others(means, i)},
                     {"slowest", means.size() > 1 && static_cast<std::ptrdiff_t>(i) == slowest}});
  }
  return ranks;
}

}  // namespace

Json run_config(const fs::path& folder) {
  Json config = Json::object();
  std::istringstream lines(text_within(folder, "config.toml", kMaxFileBytes));
  std::string section;
  for (std::string line; std::getline(lines, line) && config.size() < kMaxItems;) {
    const std::size_t equals = line.find(" = ");
    if (line.size() > 2 && line.front() == '[' && line.back() == ']') {
      section = line.substr(1, line.size() - 2) + ".";
    } else if (equals != std::string::npos && line.front() != '#') {
      const std::string key = line.substr(0, equals);
      config[section + key.substr(0, key.find_last_not_of(' ') + 1)] = line.substr(equals + 3);
    }
  }
  return config;
}

RunFiles run_files(const fs::path& folder) {
  RunFiles files;
  for (const char* name : {"metrics.jsonl", "summary.json", "config.toml", "supervisor.jsonl", "checkpoints"})
    files.push_back(FileIdentity::of(folder / name));
  return files;
}

Json run_state(const RunReader& reader) {
  const RunCurves& curves = reader.curves();
  const fs::path metrics = reader.folder() / "metrics.jsonl", summary_file = reader.folder() / "summary.json";
  Json summary = parse_small_json<Json>(text_within(reader.folder(), "summary.json", kMaxFileBytes));
  if (!summary.is_object()) summary = Json::object();
  const std::int64_t written = written_s(metrics);
  Json state = {{"status", curves.last_step == 0 ? "waiting" : "running"},
                {"step", curves.last_step},
                {"written", written},
                {"events", events_of(reader, summary)},
                {"num_skipped", curves.skipped.count()},
                {"ranks", ranks_of(curves)}};
  // A summary older than the metrics belongs to the run before a restart.
  if (written_s(summary_file) >= written && !text_of(summary, "status").empty())
    state["status"] = text_of(summary, "status");
  Json last = Json::object();
  for (const RunCurves::Named& curve : curves.curves)
    last[curve.name] = std::isfinite(curve.last) ? Json(curve.last) : Json(nullptr);
  state["last"] = std::move(last);
  state["summary"] = std::move(summary);
  const Json config = run_config(reader.folder());
  if (config.contains("train.steps")) state["steps"] = std::atoll(text_of(config, "train.steps").c_str());
  return state;
}

}  // namespace trireme

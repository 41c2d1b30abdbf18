#include "launcher/page/top_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "launcher/render/text_table.h"
#include "runtime/base/terminal_text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

/// Appends " label value unit" if `last` has the field.
void add_figure(std::string& text, const Json& last, const char* field, const char* label, const char* unit) {
  if (!last.contains(field) || !last[field].is_number()) return;
  text += fmt::format("  {} {:.5g}{}", label, last[field].get<double>(), unit);
}

std::string rank_table(const Json& ranks) {
  constexpr std::size_t kMaxRows = 32;
  std::vector<Json> rows(ranks.begin(), ranks.end());
  TextRows cells = {{"rank", "step ms", "mean ms", "over the median", ""}};
  if (rows.size() > kMaxRows) {
    std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
      return a["mean_ms"].get<double>() > b["mean_ms"].get<double>();
    });
    rows.resize(kMaxRows);
  }
  for (const Json& row : rows) {
    const auto ms = [&row](const char* key) { return fmt::format("{:.2f}", row[key].get<double>()); };
    cells.push_back({std::to_string(row["rank"].get<int>()), ms("step_ms"), ms("mean_ms"),
                     ms("excess_ms") + " ms", row["slowest"].get<bool>() ? "slowest" : ""});
  }
  std::string text =
      to_text(std::move(cells), {.num_left = 0, .num_kept = 5, .most_rows = kMaxRows, .num_text = 1});
  if (ranks.size() > rows.size())
    text += fmt::format("  the {} slowest of {} ranks\n", rows.size(), ranks.size());
  return text;
}

std::string phase_line(const Json& last) {
  constexpr std::string_view kPrefix = "phase_s.";
  constexpr double kMsPerSecond = 1e3;
  std::string text;
  for (const auto& [field, value] : last.items()) {
    if (field.starts_with(kPrefix) && value.is_number())
      text += fmt::format("  {} {:.2f}", terminal_line(field.substr(kPrefix.size())),
                          kMsPerSecond * value.get<double>());
  }
  return text.empty() ? text : "phases, ms:" + text + "\n";
}

}  // namespace

std::string top_text(const std::string& name, const Json& state, std::int64_t now_s) {
  const Json& last = state.at("last");
  const std::int64_t step = state.at("step");
  std::string text = fmt::format("{}  {}  step {}", terminal_line(name),
                                 terminal_line(state.at("status").get<std::string>()), step);
  if (state.contains("steps")) text += fmt::format("/{}", state["steps"].get<std::int64_t>());
  if (step > 0)
    text += fmt::format("  last line {} s ago",
                        std::max<std::int64_t>(0, now_s - state.at("written").get<std::int64_t>()));
  text += "\n";
  std::string figures;
  add_figure(figures, last, "loss", "loss", "");
  add_figure(figures, last, "eval_loss", "evaluation", "");
  add_figure(figures, last, "lr", "lr", "");
  add_figure(figures, last, "step_ms", "step", " ms");
  add_figure(figures, last, "tokens_per_s", "tokens/s", "");
  add_figure(figures, last, "samples_per_s", "samples/s", "");
  add_figure(figures, last, "mfu", "MFU", "");
  add_figure(figures, last, "data_wait_ms", "data wait", " ms");
  add_figure(figures, last, "comm_wait_ms", "exposed communication", " ms");
  if (!figures.empty()) text += figures.substr(2) + "\n";
  text += phase_line(last);
  if (!state.at("ranks").empty()) text += rank_table(state["ranks"]);
  const Json& events = state.at("events");
  constexpr std::size_t kMaxEvents = 5;
  for (std::size_t i = events.size() - std::min(events.size(), kMaxEvents); i < events.size(); ++i)
    text += fmt::format("  {}: {}\n", terminal_line(events[i]["kind"].get<std::string>()),
                        terminal_line(events[i]["text"].get<std::string>()));
  return text;
}

}  // namespace trireme

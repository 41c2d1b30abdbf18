#include "launcher/page/watch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "launcher/page/page_html.h"
#include "launcher/page/run_files.h"
#include "launcher/page/run_json.h"
#include "launcher/page/run_state.h"

namespace trireme {

using Json = nlohmann::ordered_json;

Watch::Watch(const std::vector<std::filesystem::path>& folders)
    : mark_(
          fmt::format("{:x}-{:x}", ::getpid(), std::chrono::system_clock::now().time_since_epoch().count())) {
  const std::vector<std::string> names = display_names(folders);
  for (std::size_t i = 0; i < folders.size(); ++i)
    runs_.push_back({.reader = RunReader(folders[i]), .name = names[i], .state = ""});
  look();
}

std::string Watch::number_text(std::uint64_t number) const {
  return fmt::format("{}-{}", mark_, number);
}

void Watch::tell(const std::string& kind, const std::string& data) {
  news_.push_back(fmt::format("id: {}\nevent: {}\ndata: {}\n\n", number_text(++last_number_), kind, data));
  if (news_.size() > kMaxNews) news_.pop_front();
}

void Watch::look() {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const RunReader::News news = runs_[i].reader.poll();
    if (news.anew) {
      tell("reset", "{}");
    } else if (!news.lines.empty()) {
      Json rows = Json::array();
      for (const MetricsLine& line : news.lines) rows.push_back(row_json(line));
      tell("rows", dump_json({{"run", i}, {"rows", std::move(rows)}}));
    }
    const Json state = run_state(runs_[i].reader);
    std::string text = dump_json(state);
    if (text == runs_[i].state) continue;
    runs_[i].state = std::move(text);
    tell("state", dump_json({{"run", i}, {"state", state}}));
  }
}

HttpAnswer Watch::everything() {
  look();
  Json runs = Json::array();
  for (const Run& run : runs_) runs.push_back(run_json(run.reader, run.name));
  return {.type = "application/json",
          .body = dump_json({{"after", number_text(last_number_)}, {"runs", std::move(runs)}})};
}

std::string Watch::news_after(std::uint64_t& number) const {
  if (number > last_number_ || last_number_ - number > news_.size()) {
    number = last_number_;
    return fmt::format("id: {}\nevent: reset\ndata: {{}}\n\n", number_text(number));
  }
  std::string text;
  for (; number < last_number_; ++number) text += news_[news_.size() - (last_number_ - number)];
  return text;
}

HttpAnswer Watch::follow(const std::string& after) {
  std::uint64_t number = ~std::uint64_t{0};  // ahead of all: told to take everything
  if (after.starts_with(mark_ + "-")) {
    const char* begin = after.data() + mark_.size() + 1;
    const char* end = after.data() + after.size();
    if (std::from_chars(begin, end, number).ptr != end) number = ~std::uint64_t{0};
  }
  // A line now and then, without which neither side would notice that the other is gone.
  constexpr std::time_t kSilentSeconds = 5;
  auto next = [this, number, said = std::time(nullptr)]() mutable -> std::string {
    std::string text = news_after(number);
    if (text.empty() && std::time(nullptr) - said >= kSilentSeconds) text = ":\n\n";
    if (!text.empty()) said = std::time(nullptr);
    return text;
  };
  return {.type = "text/event-stream", .body = "retry: 2000\n\n", .next = std::move(next)};
}

HttpAnswer Watch::answer(const HttpRequest& request) {
  if (request.path == "/") return {.type = "text/html; charset=utf-8", .body = live_page()};
  if (request.path == "/data") return everything();
  if (request.path == "/events") return follow(request.after);
  // No file is served by its name: there is no way out of the folders.
  return {.status = 404, .body = "The page is at /\n"};
}

}  // namespace trireme

#include "launcher/page/watch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/page/page_html.h"
#include "launcher/page/run_files.h"
#include "launcher/page/run_json.h"
#include "launcher/render/json_text.h"
#include "runtime/base/log.h"

namespace trireme {

using Json = nlohmann::ordered_json;

Watch::Watch(std::vector<std::string> arguments, std::chrono::milliseconds search_every)
    : arguments_(std::move(arguments)),
      search_every_(search_every),
      searched_(std::chrono::steady_clock::now()),
      mark_(
          fmt::format("{:x}-{:x}", ::getpid(), std::chrono::system_clock::now().time_since_epoch().count())),
      page_(std::make_shared<std::string>(live_page())) {
  for (const auto& folder : find_runs(arguments_, NoRuns::kAllowed)) add_run(folder);
  look();
}

HttpServer::Options Watch::served_at(const std::string& address) {
  return {.address = address,
          .setting = fmt::format("--listen {}", address),
          .answer = [this](const HttpRequest& request) { return answer(request); },
          .tick = [this] { look(); },
          .max_connections = 128,  // a page is a few megabytes; a slow reader holds 256 KiB of it
          .max_streams = 64,
          .nice = 10};  // the training ranks on this machine go first
}

void Watch::add_run(const std::filesystem::path& folder) {
  runs_.push_back({.reader = RunReader(folder), .name = "", .state = ""});
  runs_.back().pictures = picture_files(folder);
  std::vector<std::filesystem::path> folders;
  for (const Run& run : runs_) folders.push_back(run.reader.folder());
  const std::vector<std::string> names = display_names(folders);
  for (std::size_t i = 0; i < runs_.size(); ++i) runs_[i].name = names[i];
}

/// Changes the numbers of the runs, so pages must load everything again.
void Watch::search() {
  searched_ = std::chrono::steady_clock::now();
  const auto gone = std::erase_if(runs_, [](const Run& run) {
    std::error_code error;
    return !std::filesystem::is_directory(run.reader.folder(), error);
  });
  bool changed = gone > 0;
  for (const std::string& argument : arguments_) {
    for (const auto& folder : runs_at(argument)) {
      const bool known = std::any_of(runs_.begin(), runs_.end(),
                                     [&](const Run& run) { return run.reader.folder() == folder; });
      if (known) continue;
      if (runs_.size() == kMaxRuns) {
        if (!std::exchange(left_some_out_, true))
          log_warning(fmt::format("{} and later runs are left out: one page compares at most {}",
                                  folder.string(), kMaxRuns));
        continue;
      }
      add_run(folder);
      changed = true;
    }
  }
  if (changed) tell("reset", "{}");
}

std::string Watch::number_text(std::uint64_t number) const {
  return fmt::format("{}-{}", mark_, number);
}

void Watch::tell(const std::string& kind, const std::string& data) {
  news_.push_back(fmt::format("id: {}\nevent: {}\ndata: {}\n\n", number_text(++last_number_), kind, data));
  news_bytes_ += news_.back().size();
  while (news_.size() > kMaxNews || (news_bytes_ > kMaxNewsBytes && news_.size() > 1)) {
    news_bytes_ -= news_.front().size();
    news_.pop_front();
  }
}

void Watch::look() {
  if (std::chrono::steady_clock::now() - searched_ >= search_every_) search();
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    RunFiles files = run_files(runs_[i].reader.folder());
    RunFiles pictures = picture_files(runs_[i].reader.folder());
    const bool new_pictures = pictures != runs_[i].pictures;
    runs_[i].pictures = std::move(pictures);
    const RunReader::News news = runs_[i].reader.poll();
    if (news.anew || new_pictures) {
      tell("reset", "{}");
    } else if (!news.lines.empty()) {
      Json rows = Json::array();
      for (const MetricsLine& line : news.lines) rows.push_back(row_json(line));
      tell("rows", json_text({{"run", i}, {"rows", std::move(rows)}}));
    }
    if (files == runs_[i].files && !news.anew && news.lines.empty()) continue;
    runs_[i].files = std::move(files);
    const Json state = run_state(runs_[i].reader);
    std::string text = json_text(state);
    if (text == runs_[i].state) continue;
    runs_[i].state = std::move(text);
    tell("state", json_text({{"run", i}, {"state", state}}));
  }
}

HttpAnswer Watch::everything() {
  if (!everything_ || everything_number_ != last_number_) {
    Json runs = Json::array();
    for (const Run& run : runs_) runs.push_back(run_json(run.reader, run.name));
    everything_ = std::make_shared<std::string>(
        json_text({{"after", number_text(last_number_)}, {"runs", std::move(runs)}}));
    everything_number_ = last_number_;
  }
  return {.type = "application/json", .kept = everything_};
}

std::string Watch::news_after(std::uint64_t& number) const {
  if (number > last_number_ || last_number_ - number > news_.size()) {
    number = last_number_;
    return fmt::format("id: {}\nevent: reset\ndata: {{}}\n\n", number_text(number));
  }
  std::string text;
  for (; number < last_number_ && text.size() < kMaxTextBytes; ++number) {
    text += news_[news_.size() - (last_number_ - number)];
  }
  return text;
}

HttpAnswer Watch::follow(const std::string& after) {
  std::uint64_t number = ~std::uint64_t{0};  // beyond all numbers, so the client is sent "reset"
  if (after.starts_with(mark_ + "-")) {
    const char* begin = after.data() + mark_.size() + 1;
    const char* end = after.data() + after.size();
    if (std::from_chars(begin, end, number).ptr != end) number = ~std::uint64_t{0};
  }
  // A comment line every few seconds, without which neither side would notice that the other is gone.
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
  if (request.path == "/") return {.type = "text/html; charset=utf-8", .kept = page_};
  if (request.path == "/data") return everything();
  if (request.path == "/events") return follow(request.after);
  // Files are never served by name, so no request can leave the folders.
  return {.status = 404, .body = "The page is at /\n"};
}

}  // namespace trireme

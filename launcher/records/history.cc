#include "launcher/records/history.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "launcher/render/json_text.h"
#include "runtime/base/disk_failure.h"
#include "runtime/base/error.h"
#include "runtime/base/regular_file.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::string line_of(const std::string& event, Json fields) {
  Json line = {{"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
               {"event", event}};
  line.update(fields);
  return json_text(line) + "\n";
}

std::int64_t unix_time_of(const std::string& text) {
  std::tm time{};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time);
  if (end == nullptr || *end != '\0') throw std::runtime_error(fmt::format("'{}' is no time", text));
  return timegm(&time);
}

Attempt attempt_of(const Json& line) {
  return {.number = line.at("attempt"),
          .num_ranks = line.at("ranks"),
          .hosts = line.value("hosts", std::vector<std::string>()),
          .began_s = unix_time_of(line.at("time")),
          .first_step = line.at("first_step"),
          .process = "",
          .tag = line.at("tag"),
          .end = {}};
}

Attempt::End end_of(const Json& line) {
  return {.exit_code = line.at("exit_code"),
          .step = line.at("step"),
          .verdict = line.at("verdict"),
          .seconds = line.at("seconds"),
          .host = line.value("host", ""),
          .code = find_error_code(line.value("code", "")),
          .system_error = line.value("system_error", 0)};
}

/// The content of a history file, up to its last whole line.
struct Content {
  std::vector<Attempt> attempts;
  int next_number = 1;
  std::size_t whole_bytes = 0, bytes = 0;
};

constexpr std::size_t kMaxHistoryBytes = 64 << 20;

Content read_content(const std::filesystem::path& path) {
  Content result;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return result;
  const std::string text =
      read_text_file({.path = path, .what = "supervisor's history", .max_bytes = kMaxHistoryBytes});
  std::size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const auto line_end = text.find('\n', begin);
    if (line_end == std::string::npos) break;
    try {
      const auto line = parse_small_json<Json>(std::string_view(text).substr(begin, line_end - begin));
      if (line.is_discarded()) throw std::runtime_error("it is not JSON, or too large");
      const std::string event = line.at("event");
      if (event == "begin") {
        result.attempts.push_back(attempt_of(line));
        result.next_number = result.attempts.back().number + 1;
      } else if (event == "started" && !result.attempts.empty()) {
        result.attempts.back().process = line.at("process");
      } else if (event == "end" && !result.attempts.empty()) {
        result.attempts.back().end = end_of(line);
      } else if (event == "done" || event == "stopped" || event == "gave_up") {
        result.attempts.clear();
      }
    } catch (const std::exception& error) {
      throw Error(
          ErrorCode::kInvalidInput,
          "{}:{}: the supervisor's history is damaged: {:.200}; move the file away to begin a new one",
          path.string(), number, error.what());
    }
    begin = result.whole_bytes = line_end + 1;
  }
  result.bytes = text.size();
  return result;
}

[[noreturn]] void fail_to_write(const std::filesystem::path& path, int reason) {
  throw Error(ErrorCode::kRuntime, "cannot write {}: {}", path.string(), std::strerror(reason));
}

/// Appends all of `text` and syncs it, or leaves the file unchanged. Returns 0 or errno.
int append_to(const std::filesystem::path& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  int reason = 0;
  const off_t before = ::lseek(fd, 0, SEEK_END);
  const ssize_t count = ::write(fd, text.data(), text.size());
  if (count < 0 || (count == static_cast<ssize_t>(text.size()) && ::fsync(fd) != 0))
    reason = errno;
  else if (count < static_cast<ssize_t>(text.size()))
    reason = ENOSPC;  // a short write means a full disk
  if (reason != 0 && ::ftruncate(fd, before) != 0) reason = errno;
  ::close(fd);
  return reason;
}

std::filesystem::path history_file(const std::filesystem::path& folder) {
  return folder / "supervisor.jsonl";
}

}  // namespace

std::vector<Attempt> read_attempts(const std::filesystem::path& folder) {
  return read_content(history_file(folder)).attempts;
}

History::History(const std::filesystem::path& folder) : path_(history_file(folder)) {
  Content content = read_content(path_);
  attempts_ = std::move(content.attempts);
  next_number_ = content.next_number;
  if (content.whole_bytes < content.bytes) std::filesystem::resize_file(path_, content.whole_bytes);
}

void History::append(const std::string& line) {
  unwritten_ += line;
  const int reason = append_to(path_, unwritten_);
  if (reason == 0 || !is_disk_failure(reason)) unwritten_.clear();
  if (reason != 0 && !is_disk_failure(reason)) fail_to_write(path_, reason);
}

void History::flush() {
  if (unwritten_.empty()) return;
  if (const int reason = append_to(path_, unwritten_); reason != 0) fail_to_write(path_, reason);
  unwritten_.clear();
}

void History::begin(const Attempt& attempt) {
  Json fields = {{"attempt", attempt.number},
                 {"ranks", attempt.num_ranks},
                 {"first_step", attempt.first_step},
                 {"tag", attempt.tag}};
  if (!attempt.hosts.empty()) fields["hosts"] = attempt.hosts;
  append(line_of("begin", fields));
  attempts_.push_back(attempt);
  next_number_ = attempt.number + 1;
}

void History::set_process(const std::string& process) {
  append(line_of("started", {{"attempt", attempts_.back().number}, {"process", process}}));
  attempts_.back().process = process;
}

void History::end(const Attempt::End& end) {
  Json fields = {{"attempt", attempts_.back().number},
                 {"exit_code", end.exit_code},
                 {"step", end.step},
                 {"seconds", end.seconds},
                 {"verdict", end.verdict}};
  if (!end.host.empty()) fields["host"] = end.host;
  if (end.code) fields["code"] = name(*end.code);
  if (end.system_error != 0) fields["system_error"] = end.system_error;
  append(line_of("end", fields));
  attempts_.back().end = end;
}

void History::note(const std::string& event, const std::string& what) {
  append(line_of(event, {{"what", what}}));
}

void History::close(const std::string& outcome, const std::string& what) {
  note(outcome, what);
}

std::string History::to_text() const {
  std::string text;
  for (const Attempt& attempt : attempts_) {
    text +=
        fmt::format("  attempt {}: {} rank(s){}{} from step {}", attempt.number, attempt.num_ranks,
                    attempt.hosts.empty() ? "" : " on ", fmt::join(attempt.hosts, ", "), attempt.first_step);
    if (!attempt.end) {
      text += ", its supervisor died\n";
    } else if (attempt.end->exit_code == 0) {
      text += fmt::format(", done after {:.1f} s\n", attempt.end->seconds);
    } else {
      const std::string& verdict = attempt.end->verdict;
      const bool has_more = verdict.find('\n') != std::string::npos;
      text += fmt::format(", ended in step {} after {:.1f} s, exit code {}{}{}{}{}{}\n", attempt.end->step,
                          attempt.end->seconds, attempt.end->exit_code,
                          attempt.end->host.empty() ? "" : ", by host ", attempt.end->host,
                          verdict.empty() ? "" : ": ", verdict.substr(0, verdict.find('\n')),
                          has_more ? " ..." : "");
    }
  }
  return text;
}

}  // namespace trireme

#include "launcher/supervise/history.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::string line_of(const std::string& event, Json fields) {
  Json line = {{"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
               {"event", event}};
  line.update(fields);
  // The job's words may hold any bytes.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Attempt attempt_of(const Json& line) {
  return {.number = line.at("attempt"),
          .num_ranks = line.at("ranks"),
          .first_step = line.at("first_step"),
          .process = "",
          .tag = line.at("tag"),
          .end = {}};
}

Attempt::End end_of(const Json& line) {
  return {.exit_code = line.at("exit_code"),
          .step = line.at("step"),
          .verdict = line.at("verdict"),
          .seconds = line.at("seconds")};
}

}  // namespace

History::History(const std::filesystem::path& folder) : path_(folder / "supervisor.jsonl") {
  std::ifstream file(path_);
  std::ostringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  std::size_t begin = 0, whole = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const auto line_end = text.find('\n', begin);
    if (line_end == std::string::npos) break;
    try {
      const Json line = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                    text.begin() + static_cast<std::ptrdiff_t>(line_end));
      const std::string event = line.at("event");
      if (event == "begin") {
        attempts_.push_back(attempt_of(line));
        next_number_ = attempts_.back().number + 1;
      } else if (event == "started" && !attempts_.empty()) {
        attempts_.back().process = line.at("process");
      } else if (event == "end" && !attempts_.empty()) {
        attempts_.back().end = end_of(line);
      } else if (event == "done" || event == "stopped" || event == "gave_up") {
        attempts_.clear();
      }
    } catch (const std::exception& error) {
      throw Error(
          ErrorCode::kInvalidInput,
          "{}:{}: the supervisor's history is damaged: {:.200}; move the file away to begin a new one",
          path_.string(), number, error.what());
    }
    begin = whole = line_end + 1;
  }
  if (whole < text.size()) std::filesystem::resize_file(path_, whole);
}

void History::append(const std::string& line) {
  const int fd = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  const bool written = fd >= 0 &&
                       ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
                       ::fsync(fd) == 0;
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (!written)
    throw Error(ErrorCode::kRuntime, "cannot write {}: {}", path_.string(), std::strerror(reason));
}

void History::begin(const Attempt& attempt) {
  append(line_of("begin", {{"attempt", attempt.number},
                           {"ranks", attempt.num_ranks},
                           {"first_step", attempt.first_step},
                           {"tag", attempt.tag}}));
  attempts_.push_back(attempt);
  next_number_ = attempt.number + 1;
}

void History::set_process(const std::string& process) {
  append(line_of("started", {{"attempt", attempts_.back().number}, {"process", process}}));
  attempts_.back().process = process;
}

void History::end(const Attempt::End& end) {
  append(line_of("end", {{"attempt", attempts_.back().number},
                         {"exit_code", end.exit_code},
                         {"step", end.step},
                         {"seconds", end.seconds},
                         {"verdict", end.verdict}}));
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
    text += fmt::format("  attempt {}: {} rank(s) from step {}", attempt.number, attempt.num_ranks,
                        attempt.first_step);
    if (!attempt.end) {
      text += ", its supervisor died\n";
    } else if (attempt.end->exit_code == 0) {
      text += fmt::format(", done after {:.1f} s\n", attempt.end->seconds);
    } else {
      const std::string& verdict = attempt.end->verdict;
      text += fmt::format(", ended in step {} after {:.1f} s, exit code {}{}{}\n", attempt.end->step,
                          attempt.end->seconds, attempt.end->exit_code, verdict.empty() ? "" : ": ",
                          verdict.substr(0, verdict.find('\n')));
    }
  }
  return text;
}

}  // namespace trireme

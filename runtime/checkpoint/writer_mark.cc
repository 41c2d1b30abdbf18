#include "runtime/checkpoint/writer_mark.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <optional>
#include <sstream>

namespace trireme {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

/// "<process>.<start>" of a running process; nullopt if no process, or only a zombie, has the number.
std::optional<std::string> process_identity(std::string_view pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::ostringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  // "pid (name) state ...": the name may contain anything, so parse after the last bracket.
  const auto name_end = text.rfind(')');
  if (!file || name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state, field;
  fields >> state;
  if (state == "Z" || state == "X") return std::nullopt;
  // The start time, in clock ticks since boot, is field 22 in proc(5); the state is field 3.
  for (int i = 4; i <= 22; ++i) fields >> field;
  if (!fields) return std::nullopt;
  return fmt::format("{}.{}", pid, field);
}

}  // namespace

std::string writer_mark() {
  return writer_mark(::getpid());
}

std::string writer_mark(int process) {
  const std::string pid = std::to_string(process);
  return fmt::format("{}@{}", process_identity(pid).value_or(pid + ".0"), host_name());
}

WriterState writer_state(std::string_view mark) {
  const auto at = mark.find('@');
  const auto dot = mark.find('.');
  if (at == std::string_view::npos || dot == std::string_view::npos || dot > at) return WriterState::kUnknown;
  const std::string_view pid = mark.substr(0, dot);
  if (pid.empty() || pid.find_first_not_of("0123456789") != std::string_view::npos)
    return WriterState::kUnknown;
  if (mark.substr(at + 1) != host_name()) return WriterState::kUnknown;
  // If even this process cannot be looked up, /proc is unusable and the state of others is unknown.
  if (!process_identity("self")) return WriterState::kUnknown;
  return process_identity(pid) == std::string(mark.substr(0, at)) ? WriterState::kAlive : WriterState::kDead;
}

}  // namespace trireme

#include "launcher/supervise/job_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "launcher/host/error_report.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

constexpr std::int64_t kTailBytes = 1 << 16;
constexpr const char* kMpirunError = "mpirun: Error: ";
constexpr const char* kMpirunRefuses = "mpirun refuses";
constexpr const char* kOfMpirun[] = {"mpirun noticed that process rank ",
                                     "mpirun has exited due to process rank "};
constexpr std::size_t kMostBytes = 4096;

/// "rank 3: ...": the word of a rank that ends the job.
bool is_word_of_rank(const std::string& line) {
  constexpr std::string_view kRank = "rank ";
  if (!line.starts_with(kRank)) return false;
  const auto end = line.find_first_not_of("0123456789", kRank.size());
  return end != std::string::npos && end > kRank.size() && line.compare(end, 2, ": ") == 0;
}

/// Its word on a rank that returned an exit code, of the two lines that have both; else empty.
std::string word_on_exit_code(const std::string& process, const std::string& code) {
  const auto rank = process.rfind(',');
  const bool is_name = process.find("Process name: [[") != std::string::npos && process.ends_with(']');
  constexpr std::string_view kCode = "Exit code:";
  const auto at = code.find(kCode);
  if (!is_name || rank == std::string::npos || at == std::string::npos) return "";
  const auto digits = code.find_first_not_of(' ', at + kCode.size());
  if (digits == std::string::npos) return "";
  return fmt::format("rank {} exited with code {}, as mpirun noticed",
                     process.substr(rank + 1, process.size() - rank - 2), code.substr(digits));
}

/// The refusal in a line of mpirun's output, with what to do; else empty.
std::string refusal_in(const std::string& line) {
  constexpr std::string_view kAsRoot = " has detected an attempt to run as root";
  constexpr std::string_view kTooFewSlots =
      "There are not enough slots available in the system to satisfy the ";
  if (line.starts_with(kMpirunError)) return line;
  if (line.find(kAsRoot) != std::string::npos && line.find(' ') == line.find(kAsRoot))
    return fmt::format(
        "{} to run as root: run as another user, or add -- --allow-run-as-root to the command (or set "
        "OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)",
        kMpirunRefuses);
  if (!line.starts_with(kTooFewSlots)) return "";
  const std::string ranks = line.substr(kTooFewSlots.size());
  return fmt::format(
      "{} to start {} ranks, as it has fewer slots, by default one for each core: ask for fewer with "
      "--ranks, name "
      "hosts with --hosts, or add -- --oversubscribe to the command",
      kMpirunRefuses, ranks.substr(0, ranks.find(' ')));
}

}  // namespace

bool is_refusal_of_mpirun(const std::string& verdict) {
  return verdict.starts_with(kMpirunError) || verdict.starts_with(kMpirunRefuses);
}

std::string refusal_of_mpirun(const std::filesystem::path& log) {
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    if (std::string refusal = refusal_in(line); !refusal.empty()) return refusal;
  }
  return "";
}

std::int64_t last_step(const std::filesystem::path& metrics) {
  std::ifstream file(metrics, std::ios::binary | std::ios::ate);
  if (!file) return 0;
  const std::int64_t begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(file.tellg()) - kTailBytes);
  file.seekg(begin);
  std::int64_t step = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const auto parsed = parse_small_json(line);
    if (!parsed.is_object() || !parsed.contains("step")) continue;  // the end of a line that began before
    if (parsed["step"].is_number_integer()) step = parsed["step"];
  }
  return step;
}

std::optional<std::int64_t> resumed_step(const std::filesystem::path& log) {
  static const std::regex kStep(
      R"((?:^resuming from .*step-(\d{1,18})$)|(?:step (\d{1,18}) in the memory of ))");
  std::optional<std::int64_t> step;
  std::ifstream file(log);
  std::smatch found;
  for (std::string line; std::getline(file, line);) {
    // The other lines, of which there may be one for each step, are no matter for an expression.
    const bool may_say = line.starts_with("resuming from ") ||
                         line.find("going on from the checkpoint of step ") != std::string::npos;
    if (may_say && std::regex_search(line, found, kStep))
      step = std::stoll(found[1].matched ? found[1] : found[2]);
  }
  return step;
}

std::string verdict_of(const std::filesystem::path& log) {
  std::ifstream file(log);
  std::string verdict, of_mpirun, before;
  bool belongs = false;
  for (std::string line; std::getline(file, line);) {
    const auto found = line.find(kErrorPrefix);
    if (verdict.empty() && (found != std::string::npos || is_word_of_rank(line))) {
      verdict = found == std::string::npos ? line : line.substr(found + kErrorPrefix.size());
      belongs = true;
    } else if (belongs && line.starts_with("  ") && verdict.size() < kMostBytes) {
      verdict += "\n" + line;
    } else {
      belongs = false;
    }
    for (const char* word : kOfMpirun) {
      if (line.starts_with(word)) of_mpirun = line;
    }
    if (const std::string refusal = refusal_in(line); !refusal.empty()) of_mpirun = refusal;
    const std::string of_code = word_on_exit_code(before, line);
    if (!of_code.empty()) of_mpirun = of_code;
    before = line;
  }
  return verdict.empty() ? of_mpirun : verdict;
}

}  // namespace trireme

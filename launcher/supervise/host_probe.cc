#include "launcher/supervise/host_probe.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>

#include "launcher/supervise/mpirun_words.h"
#include "runtime/checkpoint/writer_mark.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace

HostProbe::HostProbe(const Options& options, std::vector<std::string> hosts) : hosts_(std::move(hosts)) {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    logs_.push_back(options.folder / fmt::format("probe-{}.log", hosts_[i]));
    tags_.push_back(fmt::format("{}#probe-{}", writer_mark(), hosts_[i]));
    std::vector<std::string> command = options.mpirun;
    command.insert(command.end(), {"--host", hosts_[i] + ":1", "-np", "1"});
    command.insert(command.end(), options.program.begin(), options.program.end());
    processes_.push_back(std::make_unique<JobProcess>(
        JobProcess::Options{.command = command, .log = logs_.back(), .tag = tags_.back()}));
  }
}

HostProbe::~HostProbe() {
  // Kill all before waiting for each.
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i]->poll()) continue;
    processes_[i]->send(SIGKILL);
    end_tagged(tags_[i], std::chrono::milliseconds(0));
  }
}

bool HostProbe::poll() {
  return std::ranges::all_of(processes_, [](const auto& process) { return process->poll().has_value(); });
}

HostAnswer HostProbe::answer(std::size_t index) const {
  const auto facts = find_host_facts(content_of(logs_[index]));
  if (facts) return {.facts = *facts, .problem = ""};
  const auto code = processes_[index]->poll();
  if (!code) return {.facts = {}, .problem = "it does not answer"};
  const MpirunWords mpirun = read_mpirun_words(logs_[index]);
  const std::string words = mpirun.refuses ? mpirun.verdict : first_words(logs_[index]);
  return {.facts = {},
          .problem = words.empty() ? fmt::format("mpirun ended with exit code {}", *code) : words};
}

std::string first_words(const fs::path& log) {
  constexpr std::size_t kMostBytes = 300;
  std::ifstream file(log);
  std::string words;
  for (std::string line; std::getline(file, line) && words.size() < kMostBytes;) {
    if (line.find_first_not_of("- \t\r") == std::string::npos) {
      if (!words.empty()) break;
      continue;
    }
    words += (words.empty() ? "" : " ") + line;
  }
  return words.substr(0, kMostBytes);
}

}  // namespace trireme

#include "launcher/supervise/host_pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "runtime/base/lines_error.h"

namespace trireme {
namespace {

constexpr auto kHostPoll = std::chrono::milliseconds(20);
// A host may be loaded or far away; ssh gives up later than this.
constexpr std::chrono::seconds kTimeToAnswer{30};
// For hosts that answered before, while a job waits for its restart.
constexpr auto kTimeToAnswerAgain = std::chrono::seconds(5);
constexpr auto kAgain = std::chrono::seconds(3);

}  // namespace

HostPool::HostPool(Options options) : options_(std::move(options)) {}

HostProbe::Options HostPool::probe_options(const std::vector<Host>& hosts) const {
  HostProbe::Options options = options_.probe;
  const std::vector<std::string> naming = naming_options(hosts, options.mpirun);
  options.mpirun.insert(options.mpirun.end(), naming.begin(), naming.end());
  return options;
}

void HostPool::take_answers(const HostProbe& probe) {
  for (std::size_t i = 0; i < probe.hosts().size(); ++i) answers_[probe.hosts()[i]] = probe.answer(i);
  compare_bits();
}

// Compares with the first host of the file that answers, which is rank 0's.
void HostPool::compare_bits() {
  const HostFacts* reference = nullptr;
  std::string first;
  for (const Host& host : read_hosts(options_.file)) {
    const auto answer = answers_.find(host.name);
    if (answer == answers_.end() || !answer->second.problem.empty()) continue;
    if (reference == nullptr) {
      reference = &answer->second.facts;
      first = host.name;
      continue;
    }
    const std::string other = describe_other_bits(answer->second.facts.arithmetic, reference->arithmetic);
    if (!other.empty()) answer->second.problem = fmt::format("other bits than {}: {}", first, other);
  }
}

void HostPool::examine(Strictness strictness) {
  const std::vector<Host> hosts = read_hosts(options_.file);
  const auto num_hosts = static_cast<int>(hosts.size());
  TRIREME_CHECK(num_hosts > 0, "--hosts {}: lists no host", options_.file.string());
  TRIREME_CHECK(num_hosts > options_.num_spares,
                "--spares {}: --hosts {} has {} host(s), and at least one beside the spares has to train",
                options_.num_spares, options_.file.string(), num_hosts);
  questions_.clear();
  // Hosts that were missing before are probed while a job runs, so they need not delay its start.
  std::vector<std::string> names = names_of(hosts);
  if (strictness == Strictness::kLeaveOut)
    std::erase_if(
        names, [&](const auto& name) { return answers_.contains(name) && !answers_[name].problem.empty(); });
  HostProbe probe(probe_options(hosts), names);
  const auto until = Clock::now() + (answers_.empty() ? Clock::duration(kTimeToAnswer)
                                                      : Clock::duration(kTimeToAnswerAgain));
  while (!probe.poll() && Clock::now() < until) {
    options_.while_waiting();
    std::this_thread::sleep_for(kHostPoll);
  }
  take_answers(probe);
  if (strictness == Strictness::kLeaveOut) return;
  const std::string missing = describe_missing();
  if (missing.empty()) return;
  throw LinesError(
      ErrorCode::kInvalidInput,
      split_lines(fmt::format(
          "--hosts {}: not every host can be used{}\nput it right, or take the host out of the file; all "
          "hosts need the same build, libraries and kind of processor, at the same path",
          options_.file.string(), missing)));
}

std::vector<std::string> HostPool::missing(const std::vector<Host>& hosts) const {
  std::vector<std::string> names;
  for (const Host& host : hosts) {
    if (is_missing(host.name)) names.push_back(host.name);
  }
  return names;
}

std::string HostPool::describe_missing() const {
  const std::vector<Host> hosts = read_hosts(options_.file);
  std::string text;
  for (const std::string& name : missing(hosts)) {
    const auto answer = answers_.find(name);
    text +=
        fmt::format("\n  {}: {}", name, answer == answers_.end() ? "not asked yet" : answer->second.problem);
  }
  return text;
}

bool HostPool::is_missing(const std::string& name) const {
  const auto answer = answers_.find(name);
  return answer == answers_.end() || !answer->second.problem.empty();
}

void HostPool::lose(const std::string& name, const std::string& reason) {
  answers_[name].problem = reason;
}

int HostPool::num_hosts() const {
  return static_cast<int>(read_hosts(options_.file).size());
}

HostChoice HostPool::choose(const std::vector<Attempt>& attempts) const {
  const std::vector<Host> hosts = read_hosts(options_.file);
  return choose_hosts({.hosts = hosts,
                       .num_spares = options_.num_spares,
                       .min_slots = options_.min_slots,
                       .missing = missing(hosts)},
                      attempts);
}

void HostPool::look_again() {
  const auto now = Clock::now();
  for (auto& [name, question] : questions_) {
    if (!question.probe || (!question.probe->poll() && now < question.when)) continue;
    take_answers(*question.probe);
    const auto patience = is_missing(name) ? std::min(2 * question.patience, kTimeToAnswer) : kPatience;
    question = {.probe = nullptr, .when = now + kAgain, .patience = patience};
  }
  const std::vector<Host> hosts = read_hosts(options_.file);
  for (const std::string& name : missing(hosts)) {
    Question& question = questions_[name];
    if (question.probe || now < question.when) continue;
    question.probe = std::make_unique<HostProbe>(probe_options(hosts), std::vector{name});
    question.when = now + question.patience;
  }
}

std::multimap<std::string, std::string> HostPool::names() const {
  std::multimap<std::string, std::string> names;
  for (const auto& [name, answer] : answers_) {
    if (!answer.facts.host.empty()) names.emplace(answer.facts.host, name);
  }
  return names;
}

}  // namespace trireme

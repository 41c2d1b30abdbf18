#include "launcher/supervise/host_choice.h"

#include <algorithm>
#include <map>

namespace trireme {
namespace {

// One strike may be chance.
constexpr int kStrikesTooMany = 2;

}  // namespace

int num_strikes(const std::vector<Attempt>& attempts, const std::string& host) {
  return static_cast<int>(std::ranges::count_if(
      attempts, [&](const Attempt& attempt) { return attempt.end && attempt.end->host == host; }));
}

HostChoice choose_hosts(const HostQuestion& question, const std::vector<Attempt>& attempts) {
  std::map<std::string, int> strikes;
  std::vector<Host> order;
  for (const Host& host : question.hosts) {
    if (std::ranges::find(question.missing, host.name) != question.missing.end()) continue;
    strikes[host.name] = num_strikes(attempts, host.name);
    order.push_back(host);
  }
  std::ranges::stable_sort(order, {}, [&](const Host& host) { return strikes[host.name]; });
  HostChoice choice;
  const auto num_used = std::max<std::size_t>(
      1,
      question.hosts.size() - std::min(question.hosts.size(), static_cast<std::size_t>(question.num_spares)));
  for (const Host& host : order) {
    const bool struck_too_often = strikes[host.name] >= strikes[order.front().name] + kStrikesTooMany;
    if (choice.used.size() >= num_used) {
      choice.spares.push_back(host);
    } else if (struck_too_often && num_slots(choice.used) >= question.min_slots) {
      choice.left_out.push_back(host);
    } else {
      choice.used.push_back(host);
    }
  }
  const auto by_place = [&](const Host& host) {
    return std::ranges::find(question.hosts, host.name, &Host::name);
  };
  for (auto* part : {&choice.used, &choice.spares, &choice.left_out}) std::ranges::sort(*part, {}, by_place);
  return choice;
}

}  // namespace trireme

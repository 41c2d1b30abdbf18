#include "launcher/host/job_fabric.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/host/machine.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::string describe_clocks(const JobFabric& fabric) {
  constexpr double kManyMs = 1000;
  std::vector<std::string> differences;
  bool many = false;
  for (std::size_t i = 1; i < fabric.hosts.size(); ++i) {
    const auto& [host, clock] = fabric.hosts[i];
    differences.push_back(
        fmt::format("{} {:+.2f} ms (+-{:.2f})", host.host, clock.middle_ms(), clock.error_ms()));
    many = many || std::abs(clock.middle_ms()) > kManyMs + clock.error_ms();
  }
  return fmt::format(
      "{}, from {}{}", fmt::join(differences, ", "), fabric.hosts[0].fabric.host,
      many ? ": synchronise them, for instance with chrony, as logs and records of hosts are compared" : "");
}

}  // namespace

JobFabric examine_fabric(Communicator& comm) {
  const std::vector<std::string> texts = comm.all_gather_strings(to_json(read_fabric(host_name())).dump());
  const std::vector<ClockDifference> clocks = measure_clocks(comm);
  JobFabric fabric;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    HostFabric host = fabric_of(Json::parse(texts[rank]));
    const bool known = std::ranges::any_of(
        fabric.hosts, [&](const JobFabric::Host& other) { return other.fabric.host == host.host; });
    if (!known) fabric.hosts.push_back({std::move(host), clocks[rank]});
  }
  return fabric;
}

std::optional<HostLink> link_between_hosts(const JobFabric& fabric) {
  if (fabric.hosts.size() < 2) return std::nullopt;
  std::optional<HostLink> slowest;
  for (const JobFabric::Host& host : fabric.hosts) {
    const std::optional<HostLink> link = link_of(host.fabric);
    if (!link) return std::nullopt;
    if (!slowest || link->gb_per_s < slowest->gb_per_s) slowest = link;
  }
  return slowest;
}

std::vector<std::pair<std::string, std::string>> describe(const JobFabric& fabric) {
  std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> groups;  // hosts, their lines
  for (const JobFabric::Host& host : fabric.hosts) {
    const std::vector<std::string> lines = describe(host.fabric);
    const auto same = std::ranges::find_if(groups, [&](const auto& group) { return group.second == lines; });
    if (same != groups.end()) {
      same->first.push_back(host.fabric.host);
    } else {
      groups.push_back({{host.fabric.host}, lines});
    }
  }
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& [hosts, lines] : groups) {
    rows.emplace_back("fabric", fmt::format("of {}:", fmt::join(hosts, ", ")));
    for (const std::string& line : lines) rows.emplace_back("", line);
  }
  if (fabric.hosts.size() > 1) rows.emplace_back("clocks", describe_clocks(fabric));
  return rows;
}

std::string describe_link(const JobFabric& fabric, double bus_gb_per_s) {
  if (fabric.hosts.size() < 2) return "all ranks are on one host: no link between hosts was used";
  const std::optional<HostLink> link = link_between_hosts(fabric);
  if (!link) return "a host reports no rate of an interface that is up";
  return fmt::format("{:.2f} GB/s ({}): the largest all-reduce reaches {:.0f} % of it", link->gb_per_s,
                     link->by, 100 * bus_gb_per_s / link->gb_per_s);
}

Json to_json(const JobFabric& fabric) {
  Json json = Json::array();
  for (const JobFabric::Host& host : fabric.hosts) {
    const std::optional<HostLink> link = link_of(host.fabric);
    Json& one = json.emplace_back(to_json(host.fabric));
    one["link_gb_per_s"] = link ? Json(link->gb_per_s) : Json(nullptr);
    one["clock_low_ms"] = host.clock.low_ms;
    one["clock_high_ms"] = host.clock.high_ms;
  }
  return json;
}

}  // namespace trireme

#include "launcher/supervise/host_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <sstream>

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/base/regular_file.h"

namespace trireme {
namespace {

constexpr int kMostSlots = 1 << 20;
constexpr std::string_view kSlots = "slots=";

std::optional<int> to_count(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number >= 0 && number <= kMostSlots ? std::optional(number) : std::nullopt;
}

/// The name without its domain; an address is unchanged.
std::string_view first_label(std::string_view name) {
  const bool is_address = name.find_first_not_of("0123456789.") == std::string_view::npos ||
                          name.find(':') != std::string_view::npos;
  return is_address ? name : name.substr(0, name.find('.'));
}

/// Ensures that a name cannot be an option of mpirun or ssh, a path, or shell syntax.
void check_name(const std::filesystem::path& host_file, int number, const std::string& name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]";
  constexpr std::size_t kMostBytes = 240;  // the name is part of a log's file name
  TRIREME_CHECK(
      name.find_first_not_of(kAllowed) == std::string::npos && name.front() != '-' && name.front() != '.' &&
          name.size() <= kMostBytes,
      "--hosts {}:{}: \"{:.80}\" is no host name: it has letters, digits and . - _ : [ ], and does not "
      "begin with - or .",
      host_file.string(), number, name);
}

void check_names(const std::filesystem::path& host_file, std::span<const Host> hosts) {
  for (const Host& host : hosts) {
    const std::string_view label = first_label(host.name);
    if (label == host.name) continue;
    TRIREME_CHECK(
        std::ranges::find(hosts, label, &Host::name) == hosts.end(),
        "--hosts {}: {} and {} may be one host or two: write the whole name of both, or leave one out",
        host_file.string(), label, host.name);
  }
}

}  // namespace

std::vector<std::string> naming_options(std::span<const Host> hosts, std::span<const std::string> mpirun) {
  constexpr const char* kKeepDomains = "orte_keep_fqdn_hostnames";
  if (std::ranges::find(mpirun, kKeepDomains) != mpirun.end()) return {};
  std::set<std::string_view> labels;
  for (const Host& host : hosts) labels.insert(first_label(host.name));
  return labels.size() == hosts.size() ? std::vector<std::string>()
                                       : std::vector<std::string>{"--mca", kKeepDomains, "1"};
}

std::vector<Host> read_hosts(const std::filesystem::path& host_file) {
  constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  std::istringstream file(
      read_text_file({.path = host_file, .what = "--hosts file", .max_bytes = kMaxBytes}));
  std::vector<Host> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    Host host;
    if (!(words >> host.name)) continue;
    check_name(host_file, number, host.name);
    for (std::string word; words >> word;) {
      if (!word.starts_with(kSlots)) {
        host.options += " " + word;
        continue;
      }
      const auto count = to_count(std::string_view(word).substr(kSlots.size()));
      TRIREME_CHECK(count, "--hosts {}:{}: \"{}\" is no number of slots", host_file.string(), number, word);
      host.slots = *count;
    }
    const auto same = std::ranges::find(hosts, host.name, &Host::name);
    if (same != hosts.end()) {
      same->slots += host.slots;
    } else {
      hosts.push_back(host);
    }
  }
  check_names(host_file, hosts);
  std::erase_if(hosts, [](const Host& host) { return host.slots == 0; });
  return hosts;
}

void write_hosts(const std::filesystem::path& host_file, std::span<const Host> hosts) {
  std::string text;
  for (const Host& host : hosts)
    text += fmt::format("{} {}{}{}\n", host.name, kSlots, host.slots, host.options);
  write_text_file(host_file, text);
}

std::vector<std::string> names_of(std::span<const Host> hosts) {
  std::vector<std::string> names;
  for (const Host& host : hosts) names.push_back(host.name);
  return names;
}

int num_slots(std::span<const Host> hosts) {
  int total = 0;
  for (const Host& host : hosts) total += host.slots;
  return total;
}

std::string to_text(std::span<const Host> hosts) {
  std::string text;
  for (const Host& host : hosts)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", host.name, host.slots);
  return text.empty() ? "none" : text;
}

}  // namespace trireme

#include "launcher/supervise/host_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"

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

}  // namespace

std::vector<Host> read_hosts(const std::filesystem::path& host_file) {
  std::ifstream file(host_file);
  TRIREME_CHECK(file, "--hosts {}: the file cannot be read", host_file.string());
  std::vector<Host> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    Host host;
    if (!(words >> host.name)) continue;
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

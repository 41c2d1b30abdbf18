#include "launcher/keys/config_difference.h"

#include <fmt/core.h>

#include <map>
#include <sstream>

#include "launcher/host/agreement.h"
#include "launcher/keys/config_keys.h"
#include "runtime/base/error.h"
#include "runtime/base/terminal_text.h"

namespace trireme {
namespace {

/// Parses a text written by to_toml into "section.key" -> value.
std::map<std::string, std::string> read_resolved(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  std::string line, section;
  while (std::getline(lines, line)) {
    if (line.starts_with('[')) {
      section = line.substr(1, line.find(']') - 1);
    } else if (const auto equals = line.find(" = "); equals != std::string::npos) {
      values[section + "." + line.substr(0, equals)] = line.substr(equals + 3);
    }
  }
  return values;
}

}  // namespace

std::string describe_difference(std::span<const std::string> texts_by_rank) {
  std::string report;
  if (texts_by_rank.empty()) return report;
  const auto reference = read_resolved(texts_by_rank[0]);
  for (std::size_t rank = 1; rank < texts_by_rank.size(); ++rank) {
    if (texts_by_rank[rank] == texts_by_rank[0]) continue;
    auto values = read_resolved(texts_by_rank[rank]);
    const std::size_t before = report.size();
    const auto add_line = [&](const std::string& key, const std::string& here, const std::string& there) {
      report += fmt::format("{}rank {} has {} = {}, rank 0 has {}", report.empty() ? "" : "\n", rank, key,
                            here, there);
    };
    for (const auto& [key, value] : reference) {
      const auto found = values.find(key);
      if (found == values.end()) {
        add_line(key, "(nothing)", value);
      } else if (found->second != value) {
        add_line(key, found->second, value);
      }
    }
    for (const auto& [key, value] : values) {
      if (!reference.contains(key)) add_line(key, value, "(nothing)");
    }
    if (report.size() == before) {
      report += fmt::format("{}rank {} differs from rank 0 in layout, not in a key: do both run one build?",
                            report.empty() ? "" : "\n", rank);
    }
  }
  return report;
}

void check_same_config(Communicator& comm, const std::string& resolved) {
  const std::string difference = describe_difference(comm.all_gather_strings(resolved));
  if (difference.empty()) return;
  throw AgreedError(
      ErrorCode::kInvalidInput,
      split_lines("the configuration differs between ranks; give all of them the same job file and --set:\n" +
                  difference));
}

std::vector<std::string> describe_changes(const JobConfig& before, const JobConfig& now) {
  std::vector<std::string> changes;
  for (const ConfigKey& key : config_keys()) {
    const bool mathematics = key.section == "model" || key.section == "data" || key.section == "train" ||
                             key.section == "train.lora" || key.section == "optimizer" ||
                             key.section == "precision";
    const bool pace = (key.section == "data" && (key.name == "workers" || key.name == "cache")) ||
                      key.full_name() == "train.max_minutes" || key.full_name() == "train.on_spike";
    if (key.scope_without(now) != nullptr) continue;
    if (!mathematics || pace || key.get(before) == key.get(now)) continue;
    changes.push_back(
        fmt::format("{} ({}, now {})", key.full_name(), to_toml(key.get(before)), to_toml(key.get(now))));
  }
  return changes;
}

}  // namespace trireme

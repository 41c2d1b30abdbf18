#include "launcher/config/layout_keys.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace trireme {
namespace {

constexpr std::string_view kLayoutKeys[] = {
    "pipeline",        "tensor",    "sequence", "zero",   "accumulate_unsharded", "keep_gathered",
    "recompute_every", "recompute", "schedule", "chunks", "pipeline_cut",         "exchange"};

std::string key_and_value(const JobConfig& job, const ConfigKey& key) {
  return fmt::format("{} = {}", key.full_name(), to_toml(key.get(job)));
}

}  // namespace

bool is_layout_key(const ConfigKey& key) {
  return key.section == "parallel" && std::ranges::find(kLayoutKeys, key.name) != std::end(kLayoutKeys);
}

bool is_left_open(const JobConfig& job, const ConfigKey& key) {
  return job.parallel.is_searched() && is_layout_key(key) && !job.parallel.fixed.contains(key.name);
}

std::vector<std::string> describe_fixed(const JobConfig& job) {
  std::vector<std::string> all;
  for (const ConfigKey& key : config_keys()) {
    if (is_layout_key(key) && job.parallel.fixed.contains(key.name)) all.push_back(key_and_value(job, key));
  }
  return all;
}

std::string describe_layout(const JobConfig& job) {
  const JobConfig defaults;
  std::vector<std::string> all;
  for (const ConfigKey& key : config_keys()) {
    if (!is_layout_key(key) || key.get(job) == key.get(defaults) || key.get(job) == ConfigValue(false))
      continue;
    all.push_back(key_and_value(job, key));
  }
  return all.empty() ? "data ranks alone" : fmt::format("{}", fmt::join(all, ", "));
}

void clear_layout(JobConfig& job) {
  const JobConfig defaults;
  for (const ConfigKey& key : config_keys()) {
    if (is_layout_key(key)) key.set(job, key.get(defaults));
  }
}

}  // namespace trireme

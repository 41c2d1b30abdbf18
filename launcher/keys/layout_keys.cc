#include "launcher/keys/layout_keys.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "launcher/keys/key_rules.h"

namespace trireme {
namespace {

constexpr std::string_view kAuto = "auto";
constexpr std::string_view kByMemory =
    " `auto`: true with several micro-batches per rank, if predicted memory stays within `memory_limit`, or "
    "without a limit within 7/8 of the memory that a rank may use. `keep_gathered` has priority, as it saves "
    "more traffic. `trireme plan`, `config.toml` and `summary.json` contain the choice.";

ConfigValue to_config(const LayoutValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag;
  if (const std::int64_t* number = std::get_if<std::int64_t>(&value)) return *number;
  return std::get<std::string>(value);
}

LayoutValue to_layout(const ConfigValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag;
  if (const std::int64_t* number = std::get_if<std::int64_t>(&value)) return *number;
  return std::get<std::string>(value);
}

KeyRule rule_of(const LayoutField& field) {
  if (!field.words.empty()) {
    KeyRule rule{.text = fmt::format("\"{}\"", fmt::join(field.words, "\", \"")),
                 .words = {field.words.begin(), field.words.end()}};
    rule.allows = [words = rule.words](const ConfigValue& value) {
      return std::ranges::find(words, std::get<std::string>(value)) != words.end();
    };
    return rule;
  }
  if (field.chosen_by == ChosenBy::kMemory) return {.text = "true, false, \"auto\""};
  if (std::holds_alternative<bool>(field.get({}))) return any();
  if (field.most == std::numeric_limits<std::int64_t>::max())
    return at_least(static_cast<double>(field.least));
  if (field.most == std::numeric_limits<int>::max()) return count_from(field.least);
  return from_to(static_cast<double>(field.least), static_cast<double>(field.most));
}

KeyType type_of(const LayoutField& field) {
  if (field.chosen_by == ChosenBy::kMemory) return KeyType::kBooleanOrAuto;
  if (field.name.ends_with("_bytes")) return KeyType::kBytes;
  if (!field.words.empty()) return KeyType::kString;
  return std::holds_alternative<bool>(field.get({})) ? KeyType::kBoolean : KeyType::kInteger;
}

std::string key_and_value(const JobConfig& job, const ConfigKey& key) {
  return fmt::format("{} = {}", key.full_name(), to_toml(key.get(job)));
}

}  // namespace

ConfigKey layout_key(const LayoutField& field) {
  const LayoutField* row = &field;
  const bool may_be_auto = field.chosen_by == ChosenBy::kMemory;
  return {.section = "parallel",
          .name = std::string(field.name),
          .type = type_of(field),
          .rule = rule_of(field),
          .help = fmt::format("{}{}", field.doc, may_be_auto ? kByMemory : ""),
          .get = [=](const JobConfig& job) -> ConfigValue {
            if (may_be_auto && job.parallel.open.contains(row->name)) return std::string(kAuto);
            return to_config(row->get(job.parallel.layout));
          },
          .set =
              [=](JobConfig& job, const ConfigValue& value) {
                if (may_be_auto && std::holds_alternative<std::string>(value)) {
                  job.parallel.open.emplace(row->name);
                  return;
                }
                job.parallel.settle(row->name, to_layout(value));
              }};
}

bool is_layout_key(const ConfigKey& key) {
  if (key.section != "parallel") return false;
  const auto fields = layout_fields();
  const auto field = std::ranges::find(fields, key.name, &LayoutField::name);
  return field != fields.end() && field->chosen_by != ChosenBy::kNobody;
}

bool is_left_open(const JobConfig& job, const ConfigKey& key) {
  return job.parallel.is_searched() && is_layout_key(key) && job.parallel.open.contains(key.name);
}

std::vector<std::string> describe_fixed(const JobConfig& job) {
  std::vector<std::string> all;
  for (const ConfigKey& key : config_keys()) {
    const bool is_fixed =
        is_layout_key(key) && job.parallel.is_searched() && !job.parallel.open.contains(key.name);
    if (is_fixed) all.push_back(key_and_value(job, key));
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
  const ParallelSection defaults;
  job.parallel.layout = without(job.parallel.layout, searched_fields());
  job.parallel.open = defaults.open;
  job.parallel.pipeline_cut = defaults.pipeline_cut;
}

}  // namespace trireme

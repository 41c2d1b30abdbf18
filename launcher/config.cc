#include "launcher/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>

#include "launcher/config_keys.h"
#include "launcher/nearest_name.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::string at(std::string_view source, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", source, region.begin.line, region.begin.column);
}

/// "the string "abc"": a value as found, for messages.
std::string describe_node(const toml::node& node) {
  if (const auto* text = node.as_string())
    return fmt::format("the string {}", to_toml(ConfigValue(text->get())));
  if (const auto* integer = node.as_integer()) return fmt::format("the integer {}", integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("the number {}", number->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  if (const auto* list = node.as_array()) return fmt::format("a list of {} values", list->size());
  if (node.is_table()) return "a table";
  return "a date or time";
}

std::optional<double> read_number(const toml::node& node) {
  if (const auto* integer = node.as_integer()) return static_cast<double>(integer->get());
  if (const auto* number = node.as_floating_point(); number && std::isfinite(number->get()))
    return number->get();
  return std::nullopt;
}

/// "12 GiB", "64MiB", "1000" -> bytes.
std::optional<std::int64_t> read_bytes(const std::string& text) {
  static const std::pair<std::string_view, double> kUnits[] = {{"", 1.0},
                                                               {"B", 1.0},
                                                               {"KiB", 1024.0},
                                                               {"MiB", 1048576.0},
                                                               {"GiB", 1073741824.0},
                                                               {"TiB", 1099511627776.0},
                                                               {"kB", 1e3},
                                                               {"MB", 1e6},
                                                               {"GB", 1e9},
                                                               {"TB", 1e12}};
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::size_t unit_start = std::min(text.find_first_not_of(' ', digits), text.size());
  double amount = 0;
  try {
    std::size_t used = 0;
    amount = std::stod(text.substr(0, digits), &used);
    if (used != digits) return std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
  for (const auto& [unit, factor] : kUnits) {
    const double bytes = amount * factor;
    if (text.substr(unit_start) == unit && bytes < 9e18) return static_cast<std::int64_t>(bytes);
  }
  return std::nullopt;
}

std::optional<ConfigValue> read_string_table(const toml::node& node) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return std::nullopt;
  std::map<std::string, std::string> values;
  for (const auto& [name, value] : *table) {
    if (!value.is_string()) return std::nullopt;
    values.emplace(name.str(), value.as_string()->get());
  }
  return values;
}

template <std::size_t kCount>
std::optional<ConfigValue> read_numbers(const toml::node& node) {
  const toml::array* list = node.as_array();
  if (list == nullptr || list->size() != kCount) return std::nullopt;
  std::array<double, kCount> numbers;
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto number = read_number(*list->get(i));
    if (!number) return std::nullopt;
    numbers[i] = *number;
  }
  return numbers;
}

std::optional<ConfigValue> read_value(const toml::node& node, KeyType type) {
  switch (type) {
    case KeyType::kBoolean:
      if (const auto* boolean = node.as_boolean()) return boolean->get();
      break;
    case KeyType::kBytes:
      if (const auto* text = node.as_string()) {
        if (const auto bytes = read_bytes(text->get())) return *bytes;
      }
      [[fallthrough]];
    case KeyType::kInteger:
      if (const auto* integer = node.as_integer()) return integer->get();
      break;
    case KeyType::kNumber:
      if (const auto number = read_number(node)) return *number;
      break;
    case KeyType::kString:
      if (const auto* text = node.as_string()) return text->get();
      break;
    case KeyType::kStringOrNumber:
      if (const auto* text = node.as_string()) return text->get();
      if (const auto number = read_number(node)) return fmt::format("{}", *number);
      break;
    case KeyType::kStringTable:
      return read_string_table(node);
    case KeyType::kNumberPair:
      return read_numbers<2>(node);
    case KeyType::kNumberTriple:
      return read_numbers<3>(node);
  }
  return std::nullopt;
}

void set_key(JobConfig& config, const ConfigKey& key, const toml::node& node, const std::string& where) {
  const auto value = read_value(node, key.type);
  TRIREME_CHECK(value, "{}: {} wants {}, found {}", where, key.full_name(), describe(key.type),
                describe_node(node));
  if (key.rule.allows && !key.rule.allows(*value)) {
    if (!key.rule.missing_feature.empty()) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{}: {} = {} is not available: {}; set it to {}", where, key.full_name(),
                              to_toml(*value), key.rule.missing_feature, to_toml(key.get(JobConfig()))));
    }
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: {} = {} is out of range; allowed: {}", where,
                                                      key.full_name(), to_toml(*value), key.rule.text));
  }
  key.set(config, *value);
}

/// The full name of the known key that is nearest to an unknown one. A key of the same section wins over an
/// equally near one of another, and one that begins with the unknown name over all.
std::string nearest_key(std::string_view section, std::string_view name) {
  constexpr std::size_t kTellingPrefix = 4;  // letters
  std::string nearest;
  int least = std::numeric_limits<int>::max();
  for (const ConfigKey& key : config_keys()) {
    if (key.section == section && name.size() >= kTellingPrefix && key.name.starts_with(name)) {
      return key.full_name();
    }
    const int distance = 2 * edit_distance(name, key.name) + (key.section == section ? 0 : 1);
    if (distance < least) {
      least = distance;
      nearest = key.full_name();
    }
  }
  return nearest;
}

[[noreturn]] void throw_unknown_section(std::string_view section, const std::string& where) {
  const auto sections = config_sections();
  std::string list;
  for (const std::string& known : sections) list += fmt::format("{}{}", list.empty() ? "" : ", ", known);
  throw Error(ErrorCode::kInvalidInput,
              fmt::format("{}: unknown section [{}]; did you mean [{}]? Sections are {}", where, section,
                          nearest_name(section, sections), list));
}

const ConfigKey& require_key(std::string_view section, std::string_view name, const std::string& where) {
  std::string known;
  for (const ConfigKey& key : config_keys()) {
    if (key.section != section) continue;
    if (key.name == name) return key;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", key.name);
  }
  if (known.empty()) throw_unknown_section(section, where);
  throw Error(ErrorCode::kInvalidInput,
              fmt::format("{}: unknown key {}.{}; did you mean {}? Keys of [{}] are {}", where, section, name,
                          nearest_key(section, name), section, known));
}

void apply_section(JobConfig& config, std::string_view section, const toml::table& keys,
                   std::string_view source, const std::string& where) {
  const auto sections = config_sections();
  if (std::find(sections.begin(), sections.end(), section) == sections.end()) {
    throw_unknown_section(section, where);
  }
  for (const auto& [name, value] : keys) {
    const std::string key_where = at(source, name.source());
    set_key(config, require_key(section, name.str(), key_where), value, key_where);
  }
}

void apply_table(JobConfig& config, const toml::table& root, std::string_view source) {
  for (const auto& [section, node] : root) {
    const std::string where = at(source, section.source());
    const toml::table* keys = node.as_table();
    TRIREME_CHECK(keys != nullptr,
                  "{}: {} stands outside of any section; did you mean {}, below its [section]?", where,
                  section.str(), nearest_key("", section.str()));
    apply_section(config, section.str(), *keys, source, where);
  }
}

toml::table parse_toml(std::string_view text, std::string_view source) {
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{}: not valid TOML: {}", at(source, error.source()), error.description()));
  }
}

/// The value of an override as a TOML table {v = value}; what is not TOML by itself is a string.
toml::table parse_override_value(const std::string& text) {
  try {
    toml::table table = toml::parse("v = " + text);
    if (table.size() == 1) return table;  // a newline in the value could add keys
  } catch (const toml::parse_error&) {
  }
  return toml::table{{"v", text}};
}

void apply_override(JobConfig& config, const std::string& text) {
  const std::string where = "--set " + text;
  const auto equals = text.find('=');
  TRIREME_CHECK(equals != std::string::npos, "{}: wants section.key=value", where);
  const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  const auto dot = name.find('.');
  TRIREME_CHECK(dot != std::string::npos, "{}: wants section.key=value; did you mean {}?", where,
                nearest_key("", name));
  const ConfigKey& key = require_key(name.substr(0, dot), name.substr(dot + 1), where);
  toml::table table = parse_override_value(value);
  // data.train=2024 names a folder, not a number.
  if (key.type == KeyType::kString && !table["v"].is_string()) table = toml::table{{"v", value}};
  set_key(config, key, *table.get("v"), where);
}

}  // namespace

JobConfig parse_config(std::string_view toml, std::string_view source,
                       std::span<const std::string> overrides) {
  JobConfig config;
  apply_table(config, parse_toml(toml, source), source);
  for (const std::string& text : overrides) apply_override(config, text);
  check_config(config);
  return config;
}

JobConfig load_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  std::error_code error;
  TRIREME_CHECK(!std::filesystem::is_directory(path, error), "cannot read the job file {}: it is a folder",
                path.string());
  std::ifstream file(path, std::ios::binary);
  TRIREME_CHECK(file.good(), "cannot read the job file {}: {}", path.string(),
                std::generic_category().message(errno));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return parse_config(text, path.string(), overrides);
}

}  // namespace trireme

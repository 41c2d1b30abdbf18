#include "launcher/keys/config_value.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "launcher/keys/key_suggestion.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

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

std::optional<ConfigValue> read_number_table(const toml::node& node) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return std::nullopt;
  std::map<std::string, double> values;
  for (const auto& [name, value] : *table) {
    const auto number = read_number(value);
    if (!number) return std::nullopt;
    values.emplace(name.str(), *number);
  }
  return values;
}

std::optional<ConfigValue> read_string_list(const toml::node& node) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return std::nullopt;
  std::vector<std::string> values;
  for (const toml::node& value : *list) {
    if (!value.is_string()) return std::nullopt;
    values.push_back(value.as_string()->get());
  }
  return values;
}

std::optional<ConfigValue> read_integer_list(const toml::node& node) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return std::nullopt;
  std::vector<std::int64_t> values;
  for (const toml::node& value : *list) {
    if (!value.is_integer()) return std::nullopt;
    values.push_back(value.as_integer()->get());
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

// Numbers in the precision that a run computes with.

// Not inlined: GCC 12 with -O2 vectorises the pair below and drops both conversions.
[[gnu::noinline]] double in_fp32(double number) {
  return static_cast<double>(static_cast<float>(number));
}

ConfigValue in_fp32(const ConfigValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return in_fp32(*number);
  if (const auto* pair = std::get_if<std::array<double, 2>>(&value)) {
    return std::array{in_fp32((*pair)[0]), in_fp32((*pair)[1])};
  }
  if (const auto* triple = std::get_if<std::array<double, 3>>(&value)) {
    return std::array{in_fp32((*triple)[0]), in_fp32((*triple)[1]), in_fp32((*triple)[2])};
  }
  if (const auto* table = std::get_if<std::map<std::string, double>>(&value)) {
    std::map<std::string, double> rounded = *table;
    for (auto& [name, number] : rounded) number = in_fp32(number);
    return rounded;
  }
  return value;
}

bool is_finite(const ConfigValue& value) {
  const auto finite = [](double x) { return std::isfinite(x); };
  if (const auto* number = std::get_if<double>(&value)) return finite(*number);
  if (const auto* pair = std::get_if<std::array<double, 2>>(&value)) {
    return std::ranges::all_of(*pair, finite);
  }
  if (const auto* table = std::get_if<std::map<std::string, double>>(&value)) {
    return std::ranges::all_of(*table, [&](const auto& entry) { return finite(entry.second); });
  }
  const auto* triple = std::get_if<std::array<double, 3>>(&value);
  return triple == nullptr || std::ranges::all_of(*triple, finite);
}

}  // namespace

std::string shortened(std::string text) {
  constexpr std::size_t kShown = 200;
  if (text.size() > kShown) text.replace(kShown, text.size(), "...");
  return text;
}

std::string describe_node(const toml::node& node) {
  if (const auto* text = node.as_string())
    return fmt::format("the string {}", shortened(to_toml(ConfigValue(text->get()))));
  if (const auto* integer = node.as_integer()) return fmt::format("the integer {}", integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("the number {}", number->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  if (const auto* list = node.as_array()) return fmt::format("a list of {} values", list->size());
  if (node.is_table()) return "a table";
  return "a date or time";
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
    case KeyType::kBooleanOrAuto:
      if (const auto* boolean = node.as_boolean()) return boolean->get();
      if (const auto* text = node.as_string(); text && text->get() == "auto") return text->get();
      break;
    case KeyType::kStringTable:
      return read_string_table(node);
    case KeyType::kStringList:
      return read_string_list(node);
    case KeyType::kNumberTable:
      return read_number_table(node);
    case KeyType::kIntegerList:
      return read_integer_list(node);
    case KeyType::kNumberPair:
      return read_numbers<2>(node);
    case KeyType::kNumberTriple:
      return read_numbers<3>(node);
  }
  return std::nullopt;
}

void check_value(const ConfigKey& key, const ConfigValue& value, const std::string& where) {
  const auto is_allowed = [&](const ConfigValue& v) { return !key.rule.allows || key.rule.allows(v); };
  const ConfigValue rounded = in_fp32(value);
  if (is_allowed(value) && is_finite(rounded) && is_allowed(rounded)) return;
  if (!key.rule.missing_feature.empty()) {
    throw Error(ErrorCode::kUnsupported, "{}: {} = {} is not available: {}; set it to {}", where,
                key.full_name(), shortened(to_toml(value)), key.rule.missing_feature,
                to_toml(key.get(JobConfig())));
  }
  if (!key.rule.words.empty()) {
    throw Error(ErrorCode::kInvalidInput, "{}: {} = {} is out of range; allowed: {}; did you mean \"{}\"?",
                where, key.full_name(), shortened(to_toml(value)), key.rule.text,
                suggest_word(std::get<std::string>(value), key.rule.words));
  }
  throw Error(ErrorCode::kInvalidInput, "{}: {} = {} is out of range{}; allowed: {}", where, key.full_name(),
              shortened(to_toml(value)), is_allowed(value) ? " in fp32, where it is " + to_toml(rounded) : "",
              key.rule.text);
}

}  // namespace trireme

// Configuration as text: the resolved TOML file and the reference.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <map>

#include "launcher/keys/config_keys.h"
#include "launcher/keys/job_file.h"
#include "launcher/keys/layout_keys.h"
#include "launcher/render/text_table.h"

namespace trireme {
namespace {

constexpr std::size_t kReferenceWidth = 118;

std::string number_text(double number) {
  std::string text = fmt::format("{}", number);
  // TOML distinguishes floats from integers by their notation.
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string quote_toml(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// Quotes the keys; `value_text` returns TOML.
template <class Value>
std::string table_text(const std::map<std::string, Value>& table, auto value_text) {
  std::string text;
  for (const auto& [key, value] : table) {
    text += fmt::format("{} {} = {}", text.empty() ? "" : ",", quote_toml(key), value_text(value));
  }
  return text.empty() ? "{}" : "{" + text + " }";
}

struct ToToml {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return number_text(value); }
  std::string operator()(const std::string& value) const { return quote_toml(value); }
  std::string operator()(const std::array<double, 2>& value) const {
    return fmt::format("[{}, {}]", number_text(value[0]), number_text(value[1]));
  }
  std::string operator()(const std::array<double, 3>& value) const {
    return fmt::format("[{}, {}, {}]", number_text(value[0]), number_text(value[1]), number_text(value[2]));
  }
  std::string operator()(const std::map<std::string, std::string>& table) const {
    return table_text(table, quote_toml);
  }
  std::string operator()(const std::map<std::string, double>& table) const {
    return table_text(table, number_text);
  }
  std::string operator()(const std::vector<std::int64_t>& list) const {
    return fmt::format("[{}]", fmt::join(list, ", "));
  }
  std::string operator()(const std::vector<std::string>& list) const {
    std::string text;
    for (const std::string& value : list) text += (text.empty() ? "" : ", ") + quote_toml(value);
    return "[" + text + "]";
  }
};

}  // namespace

std::string to_toml(const ConfigValue& value) {
  return std::visit(ToToml(), value);
}

std::string to_toml(const JobConfig& config) {
  std::string text, section;
  for (const ConfigKey& key : config_keys()) {
    if (key.scope_without(config) != nullptr || is_left_open(config, key)) continue;
    if (key.section != section) {
      text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", key.section);
      section = key.section;
    }
    text += fmt::format("{} = {}\n", key.name, to_toml(key.get(config)));
  }
  return text;
}

std::string config_reference() {
  const JobConfig defaults;
  std::string text, section;
  for (const ConfigKey& key : config_keys()) {
    if (key.section != section) {
      section = key.section;
      text += fmt::format("{}### [{}]\n\n", text.empty() ? "" : "\n", section);
    }
    std::string scope;
    for (const KeyScope& part : key.scopes) scope += (scope.empty() ? " For " : ", ") + part.text;
    text += wrapped(fmt::format("- `{}` ({}, default `{}`{}{}):{} {}", key.name, type_text(key.type),
                                to_toml(key.get(defaults)), key.rule.text.empty() ? "" : "; ", key.rule.text,
                                scope.empty() ? "" : scope + ".", key.help),
                    kReferenceWidth);
  }
  return text;
}

}  // namespace trireme

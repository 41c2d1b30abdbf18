// The table of all configuration keys: name, member, allowed values, meaning. The one place to add a key.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/config/config.h"

namespace trireme {

using ConfigValue =
    std::variant<bool, std::int64_t, double, std::string, std::array<double, 2>, std::array<double, 3>,
                 std::map<std::string, std::string>, std::vector<std::string>, std::map<std::string, double>>;

enum class KeyType : std::uint8_t {
  kBoolean,
  kInteger,
  kBytes,  // an integer, or a string with a unit: "12 GiB"
  kNumber,
  kString,
  kNumberPair,
  kNumberTriple,
  kStringOrNumber,  // kept as text
  kBooleanOrAuto,   // true, false, or the string "auto"
  kStringTable,     // { name = "text", ... }
  kStringList,      // ["text", ...]
  kNumberTable,     // { name = 0.5, ... }
};
constexpr bool is_table(KeyType type) {
  return type == KeyType::kStringTable || type == KeyType::kNumberTable;
}

/// "an integer", for messages.
std::string_view describe(KeyType type);
/// "integer", for the reference.
std::string_view type_text(KeyType type);

/// The values of its type that a key takes.
struct KeyRule {
  std::string text;                                // "at least 1"; empty: any
  std::function<bool(const ConfigValue&)> allows;  // null: any
  std::vector<std::string> words;                  // all values, where they are words
  std::string missing_feature;                     // why another value would be right one day, but not yet
};

/// The jobs in which a key has an effect.
struct KeyScope {
  std::string text;        // what it is for: "GPTs"
  std::string decided_by;  // the full name of the key that says which
  std::function<bool(const JobConfig&)> holds;
  bool refuses_defaults =
      false;  // outside of it a key is refused even with its default: all of it is for this
};

struct ConfigKey {
  std::string section, name;
  KeyType type = KeyType::kString;
  KeyRule rule;
  std::vector<KeyScope> scopes;  // all of them hold where it has an effect; empty: in every job
  std::string help;              // one or two sentences with units
  std::function<ConfigValue(const JobConfig&)> get;
  std::function<void(JobConfig&, const ConfigValue&)> set;  // the value holds the alternative of `type`

  std::string full_name() const { return section + "." + name; }
  /// The first scope that `job` is outside of; null: the key has an effect.
  const KeyScope* scope_without(const JobConfig& job) const;
};

/// All keys, in the order in which the resolved configuration prints them; sections are contiguous.
std::span<const ConfigKey> config_keys();

/// Names of the sections, in that order.
std::vector<std::string> config_sections();

/// "[1, 0.5]": the value as TOML. Numbers are the shortest text that reads back to the same bits.
std::string to_toml(const ConfigValue& value);

/// The reference in keys.md: a Markdown list for each section.
std::string config_reference();

}  // namespace trireme

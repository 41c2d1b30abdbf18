// The table of all configuration keys: name, member, allowed values, meaning. New keys are added only here.
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
                 std::map<std::string, std::string>, std::vector<std::string>, std::map<std::string, double>,
                 std::vector<std::int64_t>>;

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
  kIntegerList,     // [1, ...]
};
constexpr bool is_table(KeyType type) {
  return type == KeyType::kStringTable || type == KeyType::kNumberTable;
}

/// "an integer", for messages.
std::string_view describe(KeyType type);
/// "integer", for the reference.
std::string_view type_text(KeyType type);

/// The values that a key accepts, within its type.
struct KeyRule {
  std::string text;                                // "at least 1"; empty: any
  std::function<bool(const ConfigValue&)> allows;  // null: any
  std::vector<std::string> words;                  // all accepted values, where they are words
  std::string missing_feature;                     // set where other values are planned but not implemented
};

/// The jobs in which a key has an effect.
struct KeyScope {
  std::string text;        // names the jobs: "GPTs"
  std::string decided_by;  // full name of the key that decides
  std::function<bool(const JobConfig&)> holds;
  // True: outside this scope even the default value is refused, as the whole key belongs to the scope.
  bool refuses_defaults = false;
};

struct ConfigKey {
  std::string section, name;
  KeyType type = KeyType::kString;
  KeyRule rule;
  std::vector<KeyScope> scopes;  // the key has an effect where all of them hold; empty: in every job
  std::string help;              // one or two sentences with units
  std::function<ConfigValue(const JobConfig&)> get;
  std::function<void(JobConfig&, const ConfigValue&)> set;  // `value` holds the alternative of `type`

  std::string full_name() const { return section + "." + name; }
  /// The first scope that does not hold for `job`; null: the key has an effect.
  const KeyScope* scope_without(const JobConfig& job) const;
};

/// All keys, in the order of the resolved configuration; the keys of a section are contiguous.
std::span<const ConfigKey> config_keys();

/// Names of the sections, in the same order.
std::vector<std::string> config_sections();

/// The value as TOML: "[1, 0.5]". A number is the shortest text that parses to the same bits.
std::string to_toml(const ConfigValue& value);

/// The reference that `trireme train --help-keys` prints: one Markdown list per section.
std::string config_reference();

}  // namespace trireme

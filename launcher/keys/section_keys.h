// Builds the table of configuration keys, section by section.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "launcher/keys/config_keys.h"

namespace trireme {

// The sections that are defined in other files.
void add_model_keys(std::vector<ConfigKey>& keys);
void add_data_keys(std::vector<ConfigKey>& keys);  // and [diffusion]
void add_output_keys(std::vector<ConfigKey>& keys);

template <class T>
constexpr KeyType key_type() {
  if constexpr (std::is_same_v<T, bool>) {
    return KeyType::kBoolean;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return KeyType::kInteger;
  } else if constexpr (std::is_same_v<T, double>) {
    return KeyType::kNumber;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return KeyType::kString;
  } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
    return KeyType::kStringTable;
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return KeyType::kStringList;
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
    return KeyType::kIntegerList;
  } else if constexpr (std::is_same_v<T, std::map<std::string, double>>) {
    return KeyType::kNumberTable;
  } else if constexpr (std::is_same_v<T, std::array<double, 3>>) {
    return KeyType::kNumberTriple;
  } else {
    static_assert(std::is_same_v<T, std::array<double, 2>>);
    return KeyType::kNumberPair;
  }
}

/// Adds the keys of one section to the table.
template <class Section>
class SectionKeys {
 public:
  /// `scopes` apply to all keys of the section.
  SectionKeys(std::vector<ConfigKey>& keys, std::string name, Section JobConfig::*section,
              std::vector<KeyScope> scopes = {})
      : keys_(keys), name_(std::move(name)), section_(section), scopes_(std::move(scopes)) {}

  template <class T>
  SectionKeys& add(std::string name, T Section::*member, KeyRule rule, std::string help) {
    return push(
        std::move(name), key_type<T>(), std::move(rule), std::move(help),
        [member](const Section& section) { return ConfigValue(section.*member); },
        [member](Section& section, const ConfigValue& value) { section.*member = std::get<T>(value); });
  }

  SectionKeys& add_bytes(std::string name, std::int64_t Section::*member, KeyRule rule, std::string help) {
    add(std::move(name), member, std::move(rule), std::move(help));
    keys_.back().type = KeyType::kBytes;
    return *this;
  }

  /// A key whose values are words. `allowed` lists the values where not all of them are words.
  template <IsWord T>
  SectionKeys& add(std::string name, T Section::*member, std::string allowed, std::string help) {
    const auto is_word = [](const ConfigValue& value) {
      T read;
      return read_word(std::get<std::string>(value), read);
    };
    return push(
        std::move(name), KeyType::kString, {.text = std::move(allowed), .allows = is_word}, std::move(help),
        [member](const Section& section) { return ConfigValue(to_word(section.*member)); },
        [member](Section& section, const ConfigValue& value) {
          read_word(std::get<std::string>(value), section.*member);
        });
  }

  template <HasWords T>
  SectionKeys& add(std::string name, T Section::*member, std::string help) {
    std::string all;
    for (const auto& entry : kWords<T>) all += fmt::format("{}\"{}\"", all.empty() ? "" : ", ", entry.word);
    add(std::move(name), member, std::move(all), std::move(help));
    for (const auto& entry : kWords<T>) keys_.back().rule.words.emplace_back(entry.word);
    return *this;
  }

  template <IsWord T>
  SectionKeys& add_string_or_number(std::string name, T Section::*member, std::string allowed,
                                    std::string help) {
    add(std::move(name), member, std::move(allowed), std::move(help));
    keys_.back().type = KeyType::kStringOrNumber;
    return *this;
  }

  /// A boolean or "auto", which is null in `member`.
  SectionKeys& add_boolean_or_auto(std::string name, std::optional<bool> Section::*member, std::string help) {
    const auto get = [member](const Section& section) {
      const std::optional<bool>& value = section.*member;
      return value ? ConfigValue(*value) : ConfigValue(std::string("auto"));
    };
    const auto set = [member](Section& section, const ConfigValue& value) {
      const bool* settled = std::get_if<bool>(&value);
      section.*member = settled ? std::optional(*settled) : std::nullopt;
    };
    return push(std::move(name), KeyType::kBooleanOrAuto, {.text = "true, false, \"auto\""}, std::move(help),
                get, set);
  }

  /// Restricts the key that was added last to fewer jobs.
  SectionKeys& only(KeyScope scope) {
    keys_.back().scopes.push_back(std::move(scope));
    return *this;
  }

 private:
  template <class Get, class Set>
  SectionKeys& push(std::string name, KeyType type, KeyRule rule, std::string help, Get get, Set set) {
    const auto section = section_;
    keys_.push_back({.section = name_,
                     .name = std::move(name),
                     .type = type,
                     .rule = std::move(rule),
                     .scopes = scopes_,
                     .help = std::move(help),
                     .get = [=](const JobConfig& job) { return get(job.*section); },
                     .set = [=](JobConfig& job, const ConfigValue& value) { set(job.*section, value); }});
    return *this;
  }

  std::vector<ConfigKey>& keys_;
  std::string name_;
  Section JobConfig::*section_;
  std::vector<KeyScope> scopes_;
};

}  // namespace trireme

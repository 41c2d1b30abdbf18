#include "runtime/checkpoint/hf_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/checkpoint/hf_model.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {

HfConfig::HfConfig(const std::filesystem::path& folder)
    : HfConfig(hf_network_folder(folder), kHfConfigFile) {}

HfConfig::HfConfig(const std::filesystem::path& folder, const std::string& name) : path_(folder / name) {
  std::error_code error;
  TRIREME_CHECK(std::filesystem::is_directory(folder, error),
                "there is no folder {}: name one that save_pretrained wrote; nothing is downloaded",
                folder.string());
  TRIREME_CHECK(std::filesystem::exists(path_, error),
                "{} has no {}: it is no folder that transformers or diffusers saved, or `trireme export`",
                folder.string(), name);
  check_is_within({.folder = folder, .name = name, .what = "configuration"});
  values_ = read_json_file(path_, "configuration");
  TRIREME_CHECK(values_.is_object(), "configuration {} is no JSON object", path_.string());
}

namespace {

bool is_index(const nlohmann::json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() < (std::uint64_t{1} << 31);
}

/// True for {}, [], false and null, which have no effect.
bool is_nothing(const nlohmann::json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

/// The group of keys without effect that contains `key`; null: none.
const HfIdleKeys* find_idle(std::span<const HfIdleKeys> groups, const std::string& key) {
  const auto found = std::ranges::find_if(groups, [&](const HfIdleKeys& group) {
    return std::ranges::find(group.keys, key) != group.keys.end();
  });
  return found == groups.end() ? nullptr : &*found;
}

/// "KEY is VALUE"; `key` may include the name of a nested object.
std::string shown(const std::string& key, const nlohmann::json& value) {
  return fmt::format("{:.100} is {:.100}", key,
                     value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

/// "DIR/config.json: rope_scaling.factor is 4.0", for messages.
std::string HfConfig::named(const std::string& key) const {
  const auto found = values_.find(key);  // does not mark the key as read
  const std::string value = found == values_.end() ? "missing" : fmt::format("{:.100}", found->dump());
  return fmt::format("{}: {}{} is {}", path_.string(), prefix_, key, value);
}

nlohmann::json::const_iterator HfConfig::find(const std::string& key) const {
  reading_->keys.insert(prefix_ + key);
  return values_.find(key);
}

std::string HfConfig::model_type() const {
  const auto type = find("model_type");
  const auto found = type == values_.end() ? find("_class_name") : type;
  TRIREME_CHECK(found != values_.end() && found->is_string(), "{}, which names no architecture",
                named("model_type"));
  return found->get<std::string>();
}

std::string HfConfig::architecture() const {
  if (!has("architectures")) return "";
  const nlohmann::json& names = values_.at("architectures");
  const bool are_names = names.is_array() && std::ranges::all_of(names, [](const nlohmann::json& name) {
                           return name.is_string();
                         });
  TRIREME_CHECK(are_names, "{}, not a list of names", named("architectures"));
  if (names.size() > 1) refuse("architectures", "folders of one class");
  return names.empty() ? "" : names[0].get<std::string>();
}

std::string HfConfig::architecture(std::span<const std::string_view> known) const {
  std::string name = architecture();
  if (!name.empty() && std::ranges::find(known, name) == known.end()) {
    refuse("architectures", fmt::format("{}", fmt::join(known, ", ")));
  }
  return name;
}

bool HfConfig::has(const std::string& key) const {
  const auto found = find(key);
  return found != values_.end() && !found->is_null();
}

bool HfConfig::is_null(const std::string& key) const {
  const auto found = find(key);
  return found != values_.end() && found->is_null();
}

bool HfConfig::is_list(const std::string& key) const {
  const auto found = find(key);
  return found != values_.end() && found->is_array();
}

std::int64_t HfConfig::count(const std::string& key, std::int64_t otherwise) const {
  if (otherwise > 0 && !has(key)) return otherwise;
  const auto found = find(key);
  const bool is_natural = found != values_.end() && found->is_number_unsigned();
  const std::uint64_t value = is_natural ? found->get<std::uint64_t>() : 0;
  TRIREME_CHECK(value >= 1 && value < (std::uint64_t{1} << 31), "{}, not an integer from 1 to 2^31",
                named(key));
  return static_cast<std::int64_t>(value);
}

std::int64_t HfConfig::natural(const std::string& key) const {
  const auto found = find(key);
  const bool is_zero = !has(key) || (found->is_number_unsigned() && found->get<std::uint64_t>() == 0);
  return is_zero ? 0 : count(key);
}

const nlohmann::json& HfConfig::entries(const std::string& key) const {
  const auto found = find(key);
  TRIREME_CHECK(found != values_.end() && found->is_object() && !found->empty(),
                "{}, not an object with entries", named(key));
  return *found;
}

std::vector<std::int64_t> HfConfig::counts(const std::string& key) const {
  const auto found = find(key);
  const auto is_count = [](const nlohmann::json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 &&
           value.get<std::uint64_t>() < (std::uint64_t{1} << 31);
  };
  TRIREME_CHECK(found != values_.end() && found->is_array() && std::ranges::all_of(*found, is_count),
                "{}, not a list of integers from 1 to 2^31", named(key));
  return found->get<std::vector<std::int64_t>>();
}

std::int64_t HfConfig::index(const std::string& key) const {
  const auto found = find(key);
  TRIREME_CHECK(found != values_.end() && is_index(*found), "{}, not an integer from 0 to 2^31", named(key));
  return found->get<std::int64_t>();
}

std::vector<std::int64_t> HfConfig::indices(const std::string& key) const {
  const auto found = find(key);
  TRIREME_CHECK(found != values_.end() && found->is_array() && std::ranges::all_of(*found, is_index),
                "{}, not a list of integers from 0 to 2^31", named(key));
  return found->get<std::vector<std::int64_t>>();
}

std::vector<std::string> HfConfig::texts(const std::string& key) const {
  const auto found = find(key);
  const auto is_text = [](const nlohmann::json& value) { return value.is_string(); };
  TRIREME_CHECK(found != values_.end() && found->is_array() && std::ranges::all_of(*found, is_text),
                "{}, not a list of texts", named(key));
  return found->get<std::vector<std::string>>();
}

double HfConfig::positive(const std::string& key, double otherwise) const {
  if (!has(key)) return otherwise;
  const double value = values_[key].is_number() ? values_[key].get<double>() : 0.0;
  const auto rounded = static_cast<float>(value);
  TRIREME_CHECK(rounded > 0 && std::isfinite(rounded), "{}, not a positive number", named(key));
  return value;
}

std::string HfConfig::text(const std::string& key, const std::string& otherwise) const {
  if (!has(key)) return otherwise;
  TRIREME_CHECK(values_[key].is_string(), "{}, not a text", named(key));
  return values_[key].get<std::string>();
}

bool HfConfig::flag(const std::string& key, bool otherwise) const {
  if (!has(key)) return otherwise;
  TRIREME_CHECK(values_[key].is_boolean(), "{}, neither true nor false", named(key));
  return values_[key].get<bool>();
}

HfConfig HfConfig::object(const std::string& key) const {
  if (!has(key)) return {path_, prefix_ + key + ".", nlohmann::json::object(), reading_};
  TRIREME_CHECK(values_[key].is_object(), "{}, not an object", named(key));
  return {path_, prefix_ + key + ".", values_[key], reading_};
}

void HfConfig::expect(const std::string& key, const nlohmann::json& computed,
                      const nlohmann::json& otherwise) const {
  const nlohmann::json& value = has(key) ? values_.at(key) : otherwise;
  const bool both_numbers = value.is_number() && computed.is_number();
  const bool agree =
      both_numbers ? static_cast<float>(value.get<double>()) == static_cast<float>(computed.get<double>())
                   : value == computed;
  if (!agree) refuse(key, computed.dump());
}

void HfConfig::refuse(const std::string& key, const std::string& computed) const {
  throw Error(ErrorCode::kUnsupported, "{}, and this build has only {}", named(key), computed);
}

void HfConfig::refuse_contradiction(const std::string& key, const std::string& other) const {
  throw Error(ErrorCode::kInvalidInput,
              "{}, which contradicts {}: versions of transformers differ in which "
              "they follow, so correct one of them, or take it out",
              named(key), other);
}

void HfConfig::note(const std::string& text) const {
  reading_->notes.push_back(fmt::format("{}: {}", path_.string(), text));
}

void HfConfig::settle_dropout() const {
  std::vector<std::string> asked;
  for (const std::string_view key : kHfDropoutKeys) {
    const auto found = find(std::string(key));
    if (found != values_.end() && !is_nothing(*found) && *found != 0)
      asked.push_back(shown(std::string(key), *found));
  }
  if (!asked.empty())
    note(
        fmt::format("{}: dropout is a choice of the training, and the job makes it", fmt::join(asked, ", ")));
}

void HfConfig::settle(std::span<const HfIdleKeys> idle) const {
  settle_dropout();
  std::vector<std::string> unknown;
  const auto visit = [&](const auto& self, const nlohmann::json& object, const std::string& prefix) -> void {
    for (const auto& [key, value] : object.items()) {
      const std::string name = prefix + key;
      const bool is_opened =
          value.is_object() && std::ranges::any_of(reading_->keys, [&](const std::string& read) {
            return read.starts_with(name + ".");
          });
      if (is_opened) self(self, value, name + ".");
      if (reading_->keys.contains(name)) continue;
      const HfIdleKeys* found = find_idle(idle, name);
      if (found == nullptr) found = find_idle(kIdleHfKeys, name);
      if (found != nullptr) reading_->idle[name] = found->reason;
      if (found != nullptr || is_nothing(value)) continue;
      if (std::ranges::find(kRefusedHfKeys, name) != kRefusedHfKeys.end()) refuse(name, "models without it");
      unknown.push_back(shown(name, value));
    }
  };
  visit(visit, values_, prefix_);
  if (!unknown.empty()) {
    note(fmt::format(
        "{}: not known here, and left out, as transformers leaves out what its models do not read",
        fmt::join(unknown, ", ")));
  }
}

}  // namespace trireme

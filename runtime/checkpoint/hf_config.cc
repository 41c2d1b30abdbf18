#include "runtime/checkpoint/hf_config.h"

#include <cmath>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/checkpoint/hf_model.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {

HfConfig::HfConfig(const std::filesystem::path& folder) : path_(folder / kHfConfigFile) {
  std::error_code error;
  TRIREME_CHECK(std::filesystem::is_directory(folder, error), "there is no folder {}", folder.string());
  TRIREME_CHECK(std::filesystem::exists(path_, error),
                "{} has no {}: it is no folder that transformers saved, or `trireme export --format hf`",
                folder.string(), kHfConfigFile);
  values_ = read_json_file(path_, "configuration");
  TRIREME_CHECK(values_.is_object(), "configuration {} is no JSON object", path_.string());
}

/// "DIR/config.json: rope_scaling.factor is 4.0", for messages.
std::string HfConfig::named(const std::string& key) const {
  const auto found = values_.find(key);
  const std::string value = found == values_.end() ? "missing" : fmt::format("{:.100}", found->dump());
  return fmt::format("{}: {}{} is {}", path_.string(), prefix_, key, value);
}

std::string HfConfig::model_type() const {
  const auto found = values_.find("model_type");
  TRIREME_CHECK(found != values_.end() && found->is_string(), "{}, which names no architecture",
                named("model_type"));
  return found->get<std::string>();
}

std::string HfConfig::architecture() const {
  if (!has("architectures")) return "";
  const nlohmann::json& names = values_["architectures"];
  TRIREME_CHECK(names.is_array(), "{}, not a list of names", named("architectures"));
  return names.size() == 1 && names[0].is_string() ? names[0].get<std::string>() : "";
}

bool HfConfig::has(const std::string& key) const {
  const auto found = values_.find(key);
  return found != values_.end() && !found->is_null();
}

std::int64_t HfConfig::count(const std::string& key, std::int64_t otherwise) const {
  if (otherwise > 0 && !has(key)) return otherwise;
  const auto found = values_.find(key);
  const bool is_natural = found != values_.end() && found->is_number_unsigned();
  const std::uint64_t value = is_natural ? found->get<std::uint64_t>() : 0;
  TRIREME_CHECK(value >= 1 && value < (std::uint64_t{1} << 31), "{}, not an integer from 1 to 2^31",
                named(key));
  return static_cast<std::int64_t>(value);
}

std::int64_t HfConfig::num_entries(const std::string& key, std::int64_t otherwise) const {
  if (!has(key)) return otherwise;
  TRIREME_CHECK(values_[key].is_object() && !values_[key].empty(), "{}, not an object with entries",
                named(key));
  return static_cast<std::int64_t>(values_[key].size());
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
  if (!has(key)) return {path_, prefix_ + key + ".", nlohmann::json::object()};
  TRIREME_CHECK(values_[key].is_object(), "{}, not an object", named(key));
  return {path_, prefix_ + key + ".", values_[key]};
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

}  // namespace trireme

#include "runtime/checkpoint/hf_labels.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

std::string default_name(std::size_t label) {
  return fmt::format("LABEL_{}", label);
}

/// A label's number, from a number or a string; nullopt otherwise.
std::optional<std::size_t> label_of(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::size_t>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  std::size_t label = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return label;
}

/// The names in an object {label: name}, or {name: label} with `inverse`; the latter may lack labels.
std::vector<std::optional<std::string>> names_in(const HfConfig& config, const std::string& key,
                                                 bool inverse) {
  const Json& entries = config.entries(key);
  std::vector<std::optional<std::string>> names(entries.size());
  for (const auto& [left, right] : entries.items()) {
    const auto label = label_of(inverse ? right : Json(left));
    TRIREME_CHECK(label && (*label < names.size() || inverse) && *label < (std::size_t{1} << 31),
                  "{}: {} has {} entries, and one for the label {:.100}: labels are numbered from 0 on",
                  config.path().string(), key, entries.size(), inverse ? right.dump() : left);
    TRIREME_CHECK(inverse || right.is_string(), "{}: {} calls label {} {:.100}, which is no text",
                  config.path().string(), key, *label, right.dump());
    if (*label >= names.size()) names.resize(std::min(*label + 1, entries.size() + 1));
    if (*label < names.size()) names[*label] = inverse ? left : right.get<std::string>();
  }
  return names;
}

std::vector<std::string> complete(const HfConfig& config, const std::string& key, bool inverse) {
  std::vector<std::string> names;
  for (const auto& name : names_in(config, key, inverse)) {
    TRIREME_CHECK(name, "{}: {} has no name for the label {}: labels are numbered from 0 on",
                  config.path().string(), key, names.size());
    names.push_back(*name);
  }
  return names;
}

/// Checks that id2label and label2id are inverse. If two labels share a name, label2id has one of them.
void check_inverse(const HfConfig& config, const std::vector<std::string>& names) {
  const Json& labels = config.entries("label2id");
  for (const auto& [name, value] : labels.items()) {
    const auto label = label_of(value);
    if (!label || *label >= names.size() || names[*label] != name) {
      config.refuse_contradiction("label2id", "id2label");
    }
  }
  for (const std::string& name : names) {
    if (!labels.contains(name)) config.refuse_contradiction("label2id", "id2label");
  }
}

std::vector<std::string> all_names(const HfConfig& config) {
  if (!config.has("id2label")) {
    return config.has("label2id") ? complete(config, "label2id", /*inverse=*/true)
                                  : std::vector<std::string>();
  }
  std::vector<std::string> names = complete(config, "id2label", /*inverse=*/false);
  if (config.has("label2id")) check_inverse(config, names);
  return names;
}

}  // namespace

HfLabels read_labels(const HfConfig& config) {
  HfLabels labels{.names = all_names(config)};
  labels.count = static_cast<std::int64_t>(labels.names.size());
  if (config.has("num_labels")) {
    const std::int64_t count = config.count("num_labels");
    if (labels.count > 0 && count != labels.count) {
      config.refuse_contradiction("num_labels", config.has("id2label") ? "id2label" : "label2id");
    }
    labels.count = count;
  }
  // A copy saved by old versions.
  if (config.has("_num_labels") &&
      config.count("_num_labels") != (labels.count > 0 ? labels.count : kDefaultHfLabels)) {
    config.refuse_contradiction("_num_labels", "the labels, num_labels or id2label");
  }
  bool are_defaults = true;
  for (std::size_t label = 0; label < labels.names.size(); ++label) {
    are_defaults = are_defaults && labels.names[label] == default_name(label);
  }
  if (are_defaults) labels.names.clear();
  return labels;
}

HfLabels read_classes(const HfConfig& config) {
  HfLabels labels = read_labels(config);
  config.expect("problem_type", "single_label_classification");
  if (labels.count == 1) {  // transformers computes a regression for one label
    config.refuse(config.has("num_labels") ? "num_labels" : "id2label", "two or more classes");
  }
  return labels;
}

void set_labels(nlohmann::ordered_json& config, std::int64_t count, const std::vector<std::string>& names) {
  auto by_label = nlohmann::ordered_json::object(), by_name = nlohmann::ordered_json::object();
  for (std::size_t label = 0; label < static_cast<std::size_t>(count); ++label) {
    const std::string name = label < names.size() ? names[label] : default_name(label);
    by_label[std::to_string(label)] = name;
    if (!by_name.contains(name)) by_name[name] = label;
  }
  config["id2label"] = std::move(by_label);
  config["label2id"] = std::move(by_name);
}

}  // namespace trireme

// The config.json of a Hugging Face transformers folder. Error messages name the file and the key. Records
// the keys that were read, so that none is ignored silently.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/hf_keys.h"

namespace trireme {

class HfConfig {
 public:
  /// Reads the config.json of hf_network_folder(`folder`). Throws Error(kInvalidInput) if it is missing or
  /// not a JSON object.
  explicit HfConfig(const std::filesystem::path& folder);
  /// Reads the file `name` of `folder`, such as the settings of a scheduler.
  HfConfig(const std::filesystem::path& folder, const std::string& name);

  const std::filesystem::path& path() const { return path_; }
  /// model_type, or _class_name in files of diffusers.
  std::string model_type() const;
  /// The class that saved the folder, such as BertForMaskedLM; empty if none is named.
  std::string architecture() const;
  /// architecture(); throws Error(kUnsupported) for one not in `known`.
  std::string architecture(std::span<const std::string_view> known) const;

  /// False if the key is missing or null.
  bool has(const std::string& key) const;
  /// True for null, false for a missing key: some defaults are not null.
  bool is_null(const std::string& key) const;
  bool is_list(const std::string& key) const;
  /// An integer in [1, 2^31); `otherwise` (0: none) if the key is missing or null. These functions throw
  /// Error(kInvalidInput).
  std::int64_t count(const std::string& key, std::int64_t otherwise = 0) const;
  /// An integer in [0, 2^31); 0 if the key is missing or null.
  std::int64_t natural(const std::string& key) const;
  /// The object at `key`, with at least one entry.
  const nlohmann::json& entries(const std::string& key) const;
  /// A list of integers as in count().
  std::vector<std::int64_t> counts(const std::string& key) const;
  /// An integer in [0, 2^31); and a list of them.
  std::int64_t index(const std::string& key) const;
  std::vector<std::int64_t> indices(const std::string& key) const;
  /// A list of strings.
  std::vector<std::string> texts(const std::string& key) const;
  /// A number that is positive and finite as fp32.
  double positive(const std::string& key, double otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  bool flag(const std::string& key, bool otherwise) const;
  /// The object at `key`, as a separate configuration. Empty if null or missing.
  HfConfig object(const std::string& key) const;

  /// Throws Error(kUnsupported) naming key and value unless the value equals `computed`. A missing key has
  /// the value `otherwise`, or `computed` without that argument. Numbers are compared as fp32.
  void expect(const std::string& key, const nlohmann::json& computed) const {
    expect(key, computed, computed);
  }
  void expect(const std::string& key, const nlohmann::json& computed, const nlohmann::json& otherwise) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& computed) const;
  /// Throws Error(kInvalidInput) naming both keys: they contradict each other.
  [[noreturn]] void refuse_contradiction(const std::string& key, const std::string& other) const;

  /// Handles the keys that were not read. Keys in `kRefusedHfKeys` throw Error(kUnsupported). Keys in `idle`
  /// and kIdleHfKeys have no effect. All others, and dropout, are added to notes().
  void settle(std::span<const HfIdleKeys> idle) const;
  /// Adds "DIR/config.json: `text`" to notes().
  void note(const std::string& text) const;
  /// One log line for each value that is not applied.
  const std::vector<std::string>& notes() const { return reading_->notes; }
  /// The keys that settle() found to have no effect, with reasons.
  const std::map<std::string, std::string_view>& idle() const { return reading_->idle; }

 private:
  /// Shared with nested objects.
  struct Reading {
    std::set<std::string> keys;  // with their prefix
    std::vector<std::string> notes;
    std::map<std::string, std::string_view> idle;
  };

  HfConfig(std::filesystem::path path, std::string prefix, nlohmann::json values,
           std::shared_ptr<Reading> reading)
      : path_(std::move(path)),
        prefix_(std::move(prefix)),
        values_(std::move(values)),
        reading_(std::move(reading)) {}
  std::string named(const std::string& key) const;
  nlohmann::json::const_iterator find(const std::string& key) const;
  void settle_dropout() const;

  std::filesystem::path path_;
  std::string prefix_;  // "rope_scaling."
  nlohmann::json values_;
  std::shared_ptr<Reading> reading_ = std::make_shared<Reading>();
};

}  // namespace trireme

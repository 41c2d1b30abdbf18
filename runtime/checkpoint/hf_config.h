// The config.json of a folder of Hugging Face's transformers, read with messages that name the file and the
// key. It records which keys were read, so that none is ignored silently.
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
  /// Reads `folder`/config.json. Throws Error(kInvalidInput) where it is missing, or no JSON object.
  explicit HfConfig(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  std::string model_type() const;
  /// The class that the folder was saved from, such as BertForMaskedLM; empty where none is named.
  std::string architecture() const;
  /// architecture(); throws Error(kUnsupported) for one that is not `known`.
  std::string architecture(std::span<const std::string_view> known) const;

  /// False where the key is missing or null.
  bool has(const std::string& key) const;
  /// An integer from 1 on and below 2^31; `otherwise` (0: none) where the key is missing or null. These throw
  /// Error(kInvalidInput).
  std::int64_t count(const std::string& key, std::int64_t otherwise = 0) const;
  /// The object at `key`, with one or more entries.
  const nlohmann::json& entries(const std::string& key) const;
  /// A positive number, also as fp32.
  double positive(const std::string& key, double otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  bool flag(const std::string& key, bool otherwise) const;
  /// The object at `key`, as a configuration of its own. Null, missing: an empty one.
  HfConfig object(const std::string& key) const;

  /// Throws Error(kUnsupported) naming key and value unless it is `computed`, which is what a missing one is
  /// where `otherwise` is left out. Numbers are compared as fp32.
  void expect(const std::string& key, const nlohmann::json& computed) const {
    expect(key, computed, computed);
  }
  void expect(const std::string& key, const nlohmann::json& computed, const nlohmann::json& otherwise) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& computed) const;
  /// Throws Error(kInvalidInput) naming both keys: they contradict each other.
  [[noreturn]] void refuse_contradiction(const std::string& key, const std::string& other) const;

  /// Settles the keys that nothing has read. Those of `kRefusedHfKeys` throw Error(kUnsupported); those of
  /// `idle` and of kIdleHfKeys have no effect; the others, and dropout, are added to notes().
  void settle(std::span<const HfIdleKeys> idle) const;
  /// Adds "DIR/config.json: `text`" to notes().
  void note(const std::string& text) const;
  /// A line for each value that is not followed, for the log.
  const std::vector<std::string>& notes() const { return reading_->notes; }
  /// The keys that settle() found without effect, and why.
  const std::map<std::string, std::string_view>& idle() const { return reading_->idle; }

 private:
  /// Shared with the objects inside.
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

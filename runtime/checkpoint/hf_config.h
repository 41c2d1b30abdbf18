// The config.json of a folder of Hugging Face's transformers, read with messages that name the file and the
// key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace trireme {

class HfConfig {
 public:
  /// Reads `folder`/config.json. Throws Error(kInvalidInput) where it is missing, or no JSON object.
  explicit HfConfig(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  std::string model_type() const;
  /// The class that the folder was saved from, such as BertForMaskedLM; empty where none or several are
  /// named.
  std::string architecture() const;

  /// False where the key is missing or null.
  bool has(const std::string& key) const;
  /// An integer from 1 on and below 2^31; `otherwise` (0: none) where the key is missing or null. These throw
  /// Error(kInvalidInput).
  std::int64_t count(const std::string& key, std::int64_t otherwise = 0) const;
  /// Entries of the object at `key`, one or more; `otherwise` where the key is missing or null.
  std::int64_t num_entries(const std::string& key, std::int64_t otherwise) const;
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

 private:
  HfConfig(std::filesystem::path path, std::string prefix, nlohmann::json values)
      : path_(std::move(path)), prefix_(std::move(prefix)), values_(std::move(values)) {}
  std::string named(const std::string& key) const;

  std::filesystem::path path_;
  std::string prefix_;  // "rope_scaling."
  nlohmann::json values_;
};

}  // namespace trireme

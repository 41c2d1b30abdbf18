// The ids of added tokens, which Hugging Face's tokenizers give anew when they read a file.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace trireme {

/// Gives ids in the order in which tokens are added: a text that the vocabulary has keeps its id there,
/// others get the next free one. Where an added token has an id in the vocabulary beyond its size, the next
/// free one is behind that until tokenizers 0.22, and counts from the size since 0.23.
class AddedIds {
 public:
  /// `vocab`: {"text": id}; outlives this.
  explicit AddedIds(const nlohmann::json& vocab);

  /// The id of `content`, the same when it is added again. `listed`: the id that a file lists, which is taken
  /// where any version gives it.
  std::int64_t add(const std::string& content, std::optional<std::int64_t> listed = std::nullopt);
  bool has(const std::string& content) const { return ids_.contains(content); }
  std::int64_t vocab_size() const { return vocab_size_; }

 private:
  const nlohmann::json& vocab_;
  std::int64_t vocab_size_;
  std::int64_t behind_;       // the next id behind all that were added
  std::int64_t num_new_ = 0;  // tokens that the vocabulary lacks
  std::map<std::string, std::int64_t> ids_;
};

}  // namespace trireme

// Ids of added tokens, which Hugging Face's tokenizers assign again when reading a file.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace trireme {

/// Assigns ids in the order of addition. A text in the vocabulary keeps its id there; others get the next
/// free id. The versions differ if an added token has a vocabulary id beyond the vocabulary's size. Up to
/// tokenizers 0.22 the next free id is after that id; since 0.23 it counts from the size.
class AddedIds {
 public:
  /// `vocab`: {"text": id}; must outlive this object.
  explicit AddedIds(const nlohmann::json& vocab);

  /// The id of `content`, the same on repeated calls. `listed`: the id in a file, which is used if any
  /// version assigns it.
  std::int64_t add(const std::string& content, std::optional<std::int64_t> listed = std::nullopt);
  bool has(const std::string& content) const { return ids_.contains(content); }
  std::int64_t vocab_size() const { return vocab_size_; }

 private:
  const nlohmann::json& vocab_;
  std::int64_t vocab_size_;
  std::int64_t behind_;       // the next id after all added ids
  std::int64_t num_new_ = 0;  // tokens that the vocabulary lacks
  std::map<std::string, std::int64_t> ids_;
};

}  // namespace trireme

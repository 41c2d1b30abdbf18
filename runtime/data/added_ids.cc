#include "runtime/data/added_ids.h"

#include <algorithm>

namespace trireme {

AddedIds::AddedIds(const nlohmann::json& vocab)
    : vocab_(vocab), vocab_size_(static_cast<std::int64_t>(vocab.size())), behind_(vocab_size_) {}

std::int64_t AddedIds::add(const std::string& content, std::optional<std::int64_t> listed) {
  if (const auto added = ids_.find(content); added != ids_.end()) return added->second;
  std::int64_t id = vocab_size_ + num_new_;
  if (const auto known = vocab_.find(content); known != vocab_.end()) {
    id = known->get<std::int64_t>();
  } else {
    if (listed == behind_) id = behind_;
    ++num_new_;
  }
  behind_ = std::max(behind_, id + 1);
  ids_.emplace(content, id);
  return id;
}

}  // namespace trireme

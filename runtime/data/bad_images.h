// The images of a set that could not be used, each counted once.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace trireme {

/// Thread-safe.
class BadImages {
 public:
  bool contains(std::int64_t index) const {
    const std::lock_guard lock(mutex_);
    return reasons_.contains(index);
  }
  void add(std::int64_t index, std::string reason) {
    const std::lock_guard lock(mutex_);
    reasons_.emplace(index, std::move(reason));
  }
  /// All reasons, in order of the index.
  std::vector<std::string> reasons() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> list;
    for (const auto& [index, reason] : reasons_) list.push_back(reason);
    return list;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::string> reasons_;
};

}  // namespace trireme

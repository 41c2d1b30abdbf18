// Memory for the decoded images of all sets of a rank: a fixed-size buffer, allocated from its start.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>

#include "runtime/base/buffer.h"

namespace trireme {

/// Thread-safe.
class PictureMemory {
 public:
  /// `buffer` is host memory.
  explicit PictureMemory(Buffer buffer) : buffer_(std::move(buffer)) {}

  /// Allocates `bytes`, valid as long as this object; null if less is left.
  std::uint8_t* take(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > static_cast<std::int64_t>(buffer_.size_bytes()) - used_bytes_) return nullptr;
    std::uint8_t* const data = static_cast<std::uint8_t*>(buffer_.data()) + used_bytes_;
    used_bytes_ += bytes;
    return data;
  }

 private:
  const Buffer buffer_;
  std::mutex mutex_;
  std::int64_t used_bytes_ = 0;
};

}  // namespace trireme

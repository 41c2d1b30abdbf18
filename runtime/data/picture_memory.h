// The memory that the sets of a rank keep decoded pictures in: a piece of fixed size, used up from its
// beginning.
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

  /// Room for `bytes`, for as long as this lives; null when less is left.
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

#include "runtime/data/picture_memory.h"

namespace trireme {

std::uint8_t* PictureMemory::take(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > static_cast<std::int64_t>(buffer_.size_bytes()) - used_bytes_) return nullptr;
  std::uint8_t* const data = static_cast<std::uint8_t*>(buffer_.data()) + used_bytes_;
  used_bytes_ += bytes;
  return data;
}

}  // namespace trireme

#include "runtime/data/decoded_cache.h"

#include <utility>

namespace trireme {

DecodedCache::DecodedCache(std::int64_t num_images, std::int64_t max_bytes)
    : max_bytes_(max_bytes), entries_(static_cast<std::size_t>(num_images)) {}

std::shared_ptr<const Image> DecodedCache::find(std::int64_t index,
                                                const ImageSource::ReductionChooser& choose) const {
  Entry entry;
  {
    const std::lock_guard lock(mutex_);
    entry = entries_.at(static_cast<std::size_t>(index));
  }
  if (!entry.image || choose(entry.size) != entry.reduction) return nullptr;
  return entry.image;
}

void DecodedCache::insert(std::int64_t index, ImageSize size, int reduction,
                          std::shared_ptr<const Image> image) {
  const auto bytes = static_cast<std::int64_t>(image->pixels.size());
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(static_cast<std::size_t>(index));
  if (entry.image || used_bytes_ + bytes > max_bytes_) return;
  entry = {.size = size, .reduction = reduction, .image = std::move(image)};
  used_bytes_ += bytes;
}

std::int64_t DecodedCache::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

}  // namespace trireme

#include "runtime/data/decoded_cache.h"

#include <algorithm>
#include <utility>

namespace trireme {

DecodedCache::DecodedCache(std::int64_t num_images, std::shared_ptr<PictureMemory> memory)
    : memory_(std::move(memory)), entries_(static_cast<std::size_t>(num_images)) {}

std::shared_ptr<const Image> DecodedCache::find(std::int64_t index,
                                                const ImageSource::ReductionChooser& choose) const {
  Entry entry;
  {
    const std::lock_guard lock(mutex_);
    entry = entries_.at(static_cast<std::size_t>(index));
  }
  if (entry.pixels == nullptr || choose(entry.stored) != entry.reduction) return nullptr;
  return std::make_shared<const Image>(
      Image{.size = entry.decoded,
            .reduction = entry.decoded_reduction,
            .pixels = {entry.pixels, entry.pixels + entry.decoded.num_pixels() * 3}});
}

void DecodedCache::insert(std::int64_t index, ImageSize size, int reduction, const Image& image) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(static_cast<std::size_t>(index));
  if (entry.pixels != nullptr) return;
  std::uint8_t* const pixels = memory_->take(static_cast<std::int64_t>(image.pixels.size()));
  if (pixels == nullptr) return;
  std::ranges::copy(image.pixels, pixels);
  entry = {.pixels = pixels,
           .decoded = image.size,
           .decoded_reduction = image.reduction,
           .stored = size,
           .reduction = reduction};
}

}  // namespace trireme

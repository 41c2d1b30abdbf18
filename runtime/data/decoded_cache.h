// A cache of decoded images in memory, for sets that fit.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/data/image_source.h"

namespace trireme {

/// Stores images until the memory is full, and never evicts: training reads all images equally often, so none
/// is more valuable. Cached pixels equal decoded pixels, so results do not depend on the cache. Thread-safe.
class DecodedCache {
 public:
  DecodedCache(std::int64_t num_images, std::shared_ptr<PictureMemory> memory);

  /// A copy of the image at the reduction chosen by `choose`; null if not cached.
  std::shared_ptr<const Image> find(std::int64_t index, const ImageSource::ReductionChooser& choose) const;
  /// Stores a copy of `image`, the result of decoding a stored image of `size` with `reduction`, unless the
  /// memory is full or the entry is taken.
  void insert(std::int64_t index, ImageSize size, int reduction, const Image& image);

 private:
  struct Entry {
    const std::uint8_t* pixels = nullptr;  // null: not cached
    ImageSize decoded;
    int decoded_reduction = 1;
    ImageSize stored;
    int reduction = 0;  // as requested; a PNG is always decoded at full size
  };
  const std::shared_ptr<PictureMemory> memory_;
  mutable std::mutex mutex_;  // guards the entries; cached pixels never change
  std::vector<Entry> entries_;
};

}  // namespace trireme

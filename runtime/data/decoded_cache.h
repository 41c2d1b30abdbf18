// Decoded pictures that are kept in memory, for sets that fit.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/data/image_source.h"

namespace trireme {

/// Keeps pictures until the memory is used up, and those that it has for good: in training every picture is
/// read as often as any other, so none is worth more. What is found is what decoding would give, so results
/// do not depend on the cache. Thread-safe.
class DecodedCache {
 public:
  DecodedCache(std::int64_t num_images, std::shared_ptr<PictureMemory> memory);

  /// A copy of the picture at the reduction that `choose` wants; null when it is not here.
  std::shared_ptr<const Image> find(std::int64_t index, const ImageSource::ReductionChooser& choose) const;
  /// Keeps a copy of `image`, which decoding a stored picture of `size` with `reduction` gave, unless there
  /// is no room or another one is here.
  void insert(std::int64_t index, ImageSize size, int reduction, const Image& image);

 private:
  struct Entry {
    const std::uint8_t* pixels = nullptr;  // null: not here
    ImageSize decoded;
    int decoded_reduction = 1;
    ImageSize stored;
    int reduction = 0;  // as requested; a PNG is decoded whole all the same
  };
  const std::shared_ptr<PictureMemory> memory_;
  mutable std::mutex mutex_;  // guards the entries; pixels do not change once they are in one
  std::vector<Entry> entries_;
};

}  // namespace trireme

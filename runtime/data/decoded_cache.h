// Decoded pictures that are kept in memory, for sets that fit.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/data/image_source.h"

namespace trireme {

/// Keeps pictures until the bytes are used up, and those that it has for good: in training every picture is
/// read as often as any other, so none is worth more. What is found is what decoding would give, so results
/// do not depend on the cache. Thread-safe.
class DecodedCache {
 public:
  DecodedCache(std::int64_t num_images, std::int64_t max_bytes);

  /// The picture at the reduction that `choose` wants; null when it is not here.
  std::shared_ptr<const Image> find(std::int64_t index, const ImageSource::ReductionChooser& choose) const;
  /// Keeps `image`, which decoding a stored picture of `size` with `reduction` gave, unless there is no room
  /// or another one is here.
  void insert(std::int64_t index, ImageSize size, int reduction, std::shared_ptr<const Image> image);

  std::int64_t used_bytes() const;

 private:
  struct Entry {
    ImageSize size;     // as stored
    int reduction = 0;  // asked for; a PNG is decoded whole all the same
    std::shared_ptr<const Image> image;
  };
  const std::int64_t max_bytes_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Entry> entries_;
  std::int64_t used_bytes_ = 0;
};

}  // namespace trireme

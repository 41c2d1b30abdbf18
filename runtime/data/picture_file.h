// A picture in a file of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "runtime/checkpoint/hash.h"
#include "runtime/data/decoded_cache.h"
#include "runtime/data/image_source.h"

namespace trireme {

struct PictureFile {
  std::filesystem::path path;
  std::int64_t max_pixels = 0;  // see EncodedImage
};

/// An entry of a cache; a null cache: none.
struct CachePlace {
  DecodedCache* cache = nullptr;
  std::int64_t index = 0;
};

/// The pixels, from the cache if they are in it. Throws as ImageSource::load().
std::shared_ptr<const Image> load_picture_file(const PictureFile& file,
                                               const ImageSource::ReductionChooser& choose,
                                               const CachePlace& place);

/// Hashes the size of a file, and its contents if they have at most `limit` bytes. Returns the number of
/// content bytes read. An unreadable file counts as size 0.
std::uint64_t hash_picture_file(const std::filesystem::path& path, std::uint64_t limit, ByteHash& hash);

}  // namespace trireme

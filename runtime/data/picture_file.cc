#include "runtime/data/picture_file.h"

#include <span>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/mapped_file.h"
#include "runtime/data/image_decode.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// The reason why reading this path can never give an image. Empty for a regular file, and for a missing one,
/// which may come back.
std::string describe_no_file(const fs::path& path) {
  std::error_code error, ignored;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found || error == std::errc::too_many_symbolic_link_levels) {
    return fs::is_symlink(fs::symlink_status(path, ignored)) ? "is a link to nothing" : "";
  }
  return fs::exists(status) && !fs::is_regular_file(status) ? "is not a regular file" : "";
}

MappedFile open_picture(const fs::path& path) {
  try {
    return {path, "picture"};
  } catch (const Error&) {
    const std::string reason = describe_no_file(path);
    if (reason.empty()) throw;
    throw BadImage(fmt::format("picture {} {}", path.string(), reason));
  }
}

}  // namespace

std::uint64_t hash_picture_file(const fs::path& path, std::uint64_t limit, ByteHash& hash) {
  std::error_code error;
  const std::uintmax_t found = fs::file_size(path, error);
  const std::uint64_t size = error ? 0 : found;
  hash.update(std::as_bytes(std::span(&size, 1)));
  if (size == 0 || size > limit) return 0;
  try {
    hash.update(MappedFile(path, "picture").bytes());
    return size;
  } catch (const Error&) {  // reading the image reports the error
    return 0;
  }
}

std::shared_ptr<const Image> load_picture_file(const PictureFile& file,
                                               const ImageSource::ReductionChooser& choose,
                                               const CachePlace& place) {
  if (place.cache) {
    if (auto image = place.cache->find(place.index, choose)) return image;
  }
  const MappedFile mapped = open_picture(file.path);
  const EncodedImage encoded{
      .bytes = mapped.bytes(), .name = file.path.string(), .max_pixels = file.max_pixels};
  const ImageSize size = read_image_size(encoded);
  const int reduction = choose(size);
  auto image = std::make_shared<const Image>(decode_image(encoded, reduction));
  if (place.cache) place.cache->insert(place.index, size, reduction, *image);
  return image;
}

}  // namespace trireme

#include "runtime/data/packed_images.h"

#include <fmt/core.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/checkpoint/hash.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int kCifarSide = 32;
constexpr std::int64_t kCifarPixels = 3 * kCifarSide * kCifarSide;

std::int64_t size_of(const MappedFile& file) {
  return static_cast<std::int64_t>(file.bytes().size());
}

std::uint8_t byte_at(const MappedFile& file, std::int64_t offset) {
  return std::to_integer<std::uint8_t>(file.bytes()[static_cast<std::size_t>(offset)]);
}

/// Label bytes before each image: 1 or 2.
int find_cifar_labels(const MappedFile& file) {
  const std::int64_t size = size_of(file);
  const bool ten = size > 0 && size % (kCifarPixels + 1) == 0,
             hundred = size > 0 && size % (kCifarPixels + 2) == 0;
  TRIREME_CHECK(ten != hundred,
                "{} is not a CIFAR file: its {} bytes are {} a multiple of 3073 (CIFAR-10) {} of 3074 "
                "(CIFAR-100), and its name has no \"idx\"",
                file.path().string(), size, ten ? "both" : "neither", ten ? "and" : "nor");
  return ten ? 1 : 2;
}

/// A label out of range means that the file is damaged, or not a CIFAR file.
void check_cifar_labels(const MappedFile& file, int num_labels) {
  const std::int64_t record = kCifarPixels + num_labels, classes = num_labels == 1 ? 10 : 100;
  for (std::int64_t picture = 0; picture * record < size_of(file); ++picture) {
    const int label = byte_at(file, picture * record + num_labels - 1);
    TRIREME_CHECK(label < classes,
                  "{} (picture {}) has the label {}, but the classes of CIFAR-{} are 0 to {}: the file is "
                  "damaged, or not one of CIFAR's",
                  file.path().string(), picture, label, classes, classes - 1);
  }
}

std::int64_t big_endian_32(const MappedFile& file, std::int64_t offset) {
  std::int64_t value = 0;
  for (std::int64_t i = 0; i < 4; ++i) value = value << 8 | byte_at(file, offset + i);
  return value;
}

/// The lengths of an IDX file of unsigned bytes, after checking them against the size of the file.
std::vector<std::int64_t> read_idx_header(const MappedFile& file, int num_dims) {
  const std::string name = file.path().string();
  const std::int64_t header_bytes = 4 + 4 * std::int64_t{num_dims};
  TRIREME_CHECK(size_of(file) >= header_bytes,
                "IDX file {} is truncated: it has {} bytes, fewer than a header", name, size_of(file));
  const std::int64_t magic = big_endian_32(file, 0);
  TRIREME_CHECK(magic == 0x800 + num_dims,
                "{} is not an IDX file of unsigned bytes in {} dimension(s): it begins with {:#010x} where "
                "{:#010x} is expected",
                name, num_dims, magic, 0x800 + num_dims);
  std::vector<std::int64_t> lengths;
  std::int64_t expected = 1;
  const std::int64_t available = size_of(file) - header_bytes;
  for (int dim = 0; dim < num_dims; ++dim) {
    lengths.push_back(big_endian_32(file, 4 + 4 * dim));
    TRIREME_CHECK(lengths.back() > 0, "IDX file {} is empty: length {} is 0", name, dim);
    // Cannot overflow 2^63: it was at most `available` before, and a length has 32 bits.
    if (expected <= available) expected *= lengths.back();
  }
  TRIREME_CHECK(expected == available,
                "IDX file {} is {}: its header promises {} or more bytes, and {} follow it", name,
                expected > available ? "truncated" : "damaged", expected, available);
  return lengths;
}

}  // namespace

std::unique_ptr<PackedImages> PackedImages::cifar(const std::vector<fs::path>& files) {
  TRIREME_CHECK(!files.empty(), "no CIFAR file was given");
  std::unique_ptr<PackedImages> set(new PackedImages);
  int num_labels = 0;
  for (const fs::path& path : files) {
    auto file = std::make_shared<const MappedFile>(path, "CIFAR file");
    const int labels = find_cifar_labels(*file);
    TRIREME_CHECK(num_labels == 0 || labels == num_labels,
                  "{} and {} are not of one set: CIFAR-10 and CIFAR-100", files.front().string(),
                  path.string());
    num_labels = labels;
    check_cifar_labels(*file, labels);
    const std::int64_t begin = set->parts_.empty() ? 0 : set->parts_.back().end;
    const std::int64_t count = size_of(*file) / (kCifarPixels + labels);
    set->parts_.push_back({.images = file, .labels = file, .begin = begin, .end = begin + count});
  }
  set->layout_ = {.size = {kCifarSide, kCifarSide},
                  .pixels = PackedLayout::Pixels::kPlanes,
                  .first_pixel = num_labels,
                  .image_stride = kCifarPixels + num_labels,
                  .first_label = num_labels - 1,
                  .label_stride = kCifarPixels + num_labels};
  return set;
}

std::unique_ptr<PackedImages> PackedImages::idx(const fs::path& images, const fs::path& labels) {
  auto image_file = std::make_shared<const MappedFile>(images, "IDX file");
  auto label_file = std::make_shared<const MappedFile>(labels, "IDX file");
  const auto shape = read_idx_header(*image_file, 3);
  const auto count = read_idx_header(*label_file, 1);
  TRIREME_CHECK(shape[0] == count[0], "{} has {} pictures, {} has {} labels", images.string(), shape[0],
                labels.string(), count[0]);
  constexpr std::int64_t kMaxSide = 1 << 15;
  TRIREME_CHECK(shape[1] <= kMaxSide && shape[2] <= kMaxSide,
                "{} has pictures of {} x {} pixels, the limit is {} a side", images.string(), shape[2],
                shape[1], kMaxSide);
  std::unique_ptr<PackedImages> set(new PackedImages);
  set->layout_ = {.size = {static_cast<int>(shape[2]), static_cast<int>(shape[1])},
                  .pixels = PackedLayout::Pixels::kGrey,
                  .first_pixel = 16,
                  .image_stride = shape[1] * shape[2],
                  .first_label = 8,
                  .label_stride = 1};
  set->parts_.push_back({.images = image_file, .labels = label_file, .begin = 0, .end = shape[0]});
  return set;
}

void PackedImages::visit_files(const std::function<void(const fs::path&)>& visit) const {
  for (const Part& part : parts_) visit(part.images->path());
}

const PackedImages::Part& PackedImages::part_of(std::int64_t index) const {
  return *std::ranges::upper_bound(parts_, index, {}, &Part::end);
}

std::int32_t PackedImages::label(std::int64_t index) const {
  const Part& part = part_of(index);
  return byte_at(*part.labels, layout_.first_label + (index - part.begin) * layout_.label_stride);
}

std::string PackedImages::name(std::int64_t index) const {
  const Part& part = part_of(index);
  return fmt::format("{} (picture {})", part.images->path().string(), index - part.begin);
}

DataFingerprint PackedImages::fingerprint() const {
  ByteHash hash;
  for (const Part& part : parts_) {
    hash.update(part.images->bytes());
    if (part.labels != part.images) hash.update(part.labels->bytes());
  }
  return {.contents =
              fmt::format("{} pictures of {} x {}", num_images(), layout_.size.width, layout_.size.height),
          .hash = hash.value()};
}

std::shared_ptr<const Image> PackedImages::load(std::int64_t index, const ReductionChooser& choose) const {
  const Part& part = part_of(index);
  choose(layout_.size);
  auto image = std::make_shared<Image>(Image{.size = layout_.size});
  const std::int64_t plane = layout_.size.num_pixels();
  image->pixels.resize(static_cast<std::size_t>(plane * 3));
  const std::int64_t first = layout_.first_pixel + (index - part.begin) * layout_.image_stride;
  const std::int64_t channel_stride = layout_.pixels == PackedLayout::Pixels::kPlanes ? plane : 0;
  std::uint8_t* out = image->pixels.data();
  for (std::int64_t pixel = 0; pixel < plane; ++pixel) {
    for (std::int64_t channel = 0; channel < 3; ++channel) {
      *out++ = byte_at(*part.images, first + channel * channel_stride + pixel);
    }
  }
  return image;
}

}  // namespace trireme

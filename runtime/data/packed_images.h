// Uncompressed images of one size in memory-mapped files: CIFAR's binary files and IDX files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/mapped_file.h"
#include "runtime/data/image_source.h"

namespace trireme {

/// The offsets of images and labels in a file.
struct PackedLayout {
  enum class Pixels : std::uint8_t {
    kPlanes,  // all red, all green, all blue
    kGrey,
  };
  ImageSize size;
  Pixels pixels = Pixels::kPlanes;
  std::int64_t first_pixel = 0, image_stride = 0;  // bytes, in the image file
  std::int64_t first_label = 0, label_stride = 0;  // bytes, in the label file
};

class PackedImages final : public ImageSource {
 public:
  /// Opens files in the binary format of CIFAR-10 (a label and 3072 pixel bytes per image) or CIFAR-100 (a
  /// coarse and a fine label, and the pixels; uses the fine label). The file sizes determine the format. All
  /// files form one set, in the given order. Throws Error(kInvalidInput) naming a file of another size, or
  /// the first image with a label out of range.
  static std::unique_ptr<PackedImages> cifar(const std::vector<std::filesystem::path>& files);
  /// Opens two IDX files of unsigned bytes, as in MNIST: images [N, rows, columns] and labels [N]. Grey
  /// values are copied to three channels. Throws Error(kInvalidInput) naming a file that is truncated, has
  /// another type, or has another N than the other file.
  static std::unique_ptr<PackedImages> idx(const std::filesystem::path& images,
                                           const std::filesystem::path& labels);

  std::int64_t num_images() const override { return parts_.back().end; }
  std::int32_t label(std::int64_t index) const override;
  std::string name(std::int64_t index) const override;
  const std::vector<std::string>& class_names() const override { return no_names_; }
  /// Hashes the files' bytes: reads them completely.
  DataFingerprint fingerprint() const override;
  void visit_files(const std::function<void(const std::filesystem::path&)>& visit) const override;
  /// Never requests a reduction.
  std::shared_ptr<const Image> load(std::int64_t index, const ReductionChooser& choose) const override;

 private:
  PackedImages() = default;
  struct Part {
    std::shared_ptr<const MappedFile> images, labels;  // one file for CIFAR
    std::int64_t begin = 0, end = 0;                   // indices
  };
  const Part& part_of(std::int64_t index) const;

  PackedLayout layout_;
  std::vector<Part> parts_;
  std::vector<std::string> no_names_;
};

}  // namespace trireme

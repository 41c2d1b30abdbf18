// Pictures of one size, uncompressed in files that are mapped into memory: CIFAR's binary files and IDX
// files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/mapped_file.h"
#include "runtime/data/image_source.h"

namespace trireme {

/// The offsets of pictures and labels in a file.
struct PackedLayout {
  enum class Pixels : std::uint8_t {
    kPlanes,  // all red, all green, all blue
    kGrey,
  };
  ImageSize size;
  Pixels pixels = Pixels::kPlanes;
  std::int64_t first_pixel = 0, image_stride = 0;  // bytes, in the file of pictures
  std::int64_t first_label = 0, label_stride = 0;  // bytes, in the file of labels
};

class PackedImages final : public ImageSource {
 public:
  /// CIFAR-10's binary version (a byte for the label, 3072 for the picture; 3073 in all), or CIFAR-100's (a
  /// coarse and a fine label, of which the fine one counts; 3074), distinguished by the size of the files.
  /// Several files are one set, in the order given. Throws Error(kInvalidInput) naming a file of another
  /// size, and the first picture with a label that the set cannot have.
  static std::unique_ptr<PackedImages> cifar(const std::vector<std::filesystem::path>& files);
  /// A pair of IDX files of unsigned bytes, as MNIST's: pictures [N, rows, columns] and labels [N]. Grey is
  /// spread over three channels. Throws Error(kInvalidInput) naming the file that is truncated, of another
  /// kind or of another length than its pair.
  static std::unique_ptr<PackedImages> idx(const std::filesystem::path& images,
                                           const std::filesystem::path& labels);

  std::int64_t num_images() const override { return parts_.back().end; }
  std::int32_t label(std::int64_t index) const override;
  std::string name(std::int64_t index) const override;
  const std::vector<std::string>& class_names() const override { return no_names_; }
  /// Of the files' bytes: reads them whole.
  DataFingerprint fingerprint() const override;
  void visit_files(const std::function<void(const std::filesystem::path&)>& visit) const override;
  /// Asks for no reduction.
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

// Pictures with annotated objects, by index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/data_fingerprint.h"
#include "runtime/data/decoded_cache.h"
#include "runtime/data/detection/labelled_box.h"
#include "runtime/data/image_decode.h"
#include "runtime/data/image_source.h"

namespace trireme {

class DetectionSet {
 public:
  struct Options {
    std::filesystem::path pictures;  // the folder
    std::filesystem::path
        annotations;  // COCO's file; empty: texts beside the pictures (read_box_text_folder)
    std::int64_t max_pixels = kDefaultMaxPixels;
  };
  /// Throws the errors of read_coco_file() and read_box_text_folder(), and Error(kInvalidInput) naming the
  /// picture and its id if its file is missing or lies outside of the folder.
  explicit DetectionSet(const Options& options);

  std::int64_t num_pictures() const { return static_cast<std::int64_t>(labelled_.pictures.size()); }
  const LabelledPicture& picture(std::int64_t index) const {
    return labelled_.pictures.at(static_cast<std::size_t>(index));
  }
  const std::vector<std::string>& class_names() const { return labelled_.class_names; }
  const std::vector<std::int64_t>& category_ids() const { return labelled_.category_ids; }
  std::filesystem::path path(std::int64_t index) const { return options_.pictures / picture(index).file; }

  /// Calls visit(path) for each picture.
  void visit_files(const std::function<void(const std::filesystem::path&)>& visit) const;
  /// The stored size of a picture. Throws as load() if the annotations do not state it.
  ImageSize size(std::int64_t index) const;

  /// Reads the headers of all pictures. Throws Error(kInvalidInput) for one that cannot be read, or whose
  /// size is not the one that its annotations state.
  void check_sizes() const;
  /// Covers classes, boxes, file sizes, and the contents of the first ImageFolder::kFingerprintBytes.
  DataFingerprint fingerprint() const;
  /// Caches decoded pictures in `memory`. Call before the first load().
  void keep_in(std::shared_ptr<PictureMemory> memory);
  /// The pixels. Thread-safe. Throws BadImage for a picture that cannot be decoded or does not have the size
  /// that its annotations state, Error if its file cannot be read.
  std::shared_ptr<const Image> load(std::int64_t index, const ImageSource::ReductionChooser& choose) const;

 private:
  /// Throws BadImage if the annotations state another size than `stored`.
  void check_size(std::int64_t index, ImageSize stored) const;

  Options options_;
  LabelledPictures labelled_;
  std::unique_ptr<DecodedCache> cache_;  // null: none
};

/// The class names of a set, by label, without a look at its pictures. Throws as read_coco_file() does, or
/// Error(kInvalidInput) for a folder without classes.txt.
std::vector<std::string> detection_class_names(const DetectionSet::Options& options);

}  // namespace trireme

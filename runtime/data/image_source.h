// Labelled images by index, for all storage formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/data_fingerprint.h"
#include "runtime/data/image.h"
#include "runtime/data/picture_memory.h"

namespace trireme {

class ImageSource {
 public:
  virtual ~ImageSource() = default;

  virtual std::int64_t num_images() const = 0;
  /// The class of an image: >= 0.
  virtual std::int32_t label(std::int64_t index) const = 0;
  /// Its file, or its position in a file, for messages.
  virtual std::string name(std::int64_t index) const = 0;
  /// Indexed by label; empty if the format has no names.
  virtual const std::vector<std::string>& class_names() const = 0;
  /// For comparing sets between ranks and with checkpoints. Reads files.
  virtual DataFingerprint fingerprint() const = 0;

  /// Calls visit(path) for each file with images.
  virtual void visit_files(const std::function<void(const std::filesystem::path&)>& visit) const = 0;

  /// Caches decoded images in `memory`, which other sets may share. Call before the first load().
  virtual void keep_in(std::shared_ptr<PictureMemory> /*memory*/) {}

  /// Receives the stored size and returns the allowed reduction: 1, 2, 4 or 8 (see decode_image).
  using ReductionChooser = std::function<int(ImageSize)>;
  /// The pixels. Thread-safe. Throws BadImage for an image that cannot be decoded, Error if its file cannot
  /// be read.
  virtual std::shared_ptr<const Image> load(std::int64_t index, const ReductionChooser& choose) const = 0;

  /// The largest label and the first image with it.
  struct LargestLabel {
    std::int32_t label = -1;
    std::int64_t index = 0;
  };
  LargestLabel largest_label() const;
};

/// Throws Error(kInvalidInput) naming the first image whose label is not below `num_classes`. If the format
/// names its classes and their number differs, the error has both counts. `field` is the name of the number
/// of the model's classes in messages: num_classes, and `num_other` that are not of the data.
void check_labels(const ImageSource& source, std::int64_t num_classes, std::string_view field,
                  std::int64_t num_other = 0);

}  // namespace trireme

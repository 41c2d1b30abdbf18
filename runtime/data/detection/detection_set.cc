#include "runtime/data/detection/detection_set.h"

#include <span>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/data/detection/box_text_folder.h"
#include "runtime/data/detection/coco_file.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/picture_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

void check_pictures_exist(const LabelledPictures& labelled, const DetectionSet::Options& options) {
  TRIREME_CHECK(fs::is_directory(options.pictures), "{} is not a folder of pictures",
                options.pictures.string());
  for (const LabelledPicture& picture : labelled.pictures) {
    try {
      file_of_folder({.folder = options.pictures, .name = picture.file, .what = "picture"});
    } catch (const Error& error) {
      throw error.saying(
          fmt::format("{}: image with id {}: {}; add the file, or remove the image and its "
                      "annotations",
                      options.annotations.string(), picture.id, error.what()));
    }
  }
}

template <class Value>
void hash_value(const Value& value, ByteHash& hash) {
  hash.update(std::as_bytes(std::span(&value, 1)));
}

void hash_text(const std::string& text, ByteHash& hash) {
  hash_value(text.size(), hash);
  hash.update(std::as_bytes(std::span(text)));
}

void hash_objects(const LabelledPicture& picture, ByteHash& hash) {
  hash_value(picture.boxes.size(), hash);
  for (const LabelledBox& object : picture.boxes) {
    hash_value(object.box, hash);
    hash_value(object.label, hash);
    hash_value(std::int32_t{object.is_crowd}, hash);
    hash_value(object.area, hash);
  }
}

}  // namespace

std::vector<std::string> detection_class_names(const DetectionSet::Options& options) {
  if (options.annotations.empty()) return read_box_text_classes(options.pictures);
  return read_coco_file(options.annotations).class_names;
}

DetectionSet::DetectionSet(const Options& options) : options_(options) {
  if (options.annotations.empty()) {
    labelled_ = read_box_text_folder(options.pictures, options.max_pixels);
    return;
  }
  labelled_ = read_coco_file(options.annotations);
  check_pictures_exist(labelled_, options);
}

void DetectionSet::visit_files(const std::function<void(const fs::path&)>& visit) const {
  for (std::int64_t index = 0; index < num_pictures(); ++index) visit(path(index));
}

ImageSize DetectionSet::size(std::int64_t index) const {
  ImageSize size = picture(index).size;
  if (size.num_pixels() > 0) return size;
  load(index, [&](ImageSize stored) {
    size = stored;
    return 8;
  });
  return size;
}

void DetectionSet::check_sizes() const {
  for (std::int64_t index = 0; index < num_pictures(); ++index) {
    if (picture(index).size.num_pixels() == 0) continue;
    const MappedFile mapped(path(index), "picture");
    check_size(index, read_image_size({.bytes = mapped.bytes(),
                                       .name = path(index).string(),
                                       .max_pixels = options_.max_pixels}));
  }
}

DataFingerprint DetectionSet::fingerprint() const {
  ByteHash labels, names;
  for (const std::string& name : class_names()) hash_text(name, labels);
  std::int64_t num_objects = 0;
  for (const LabelledPicture& picture : labelled_.pictures) {
    hash_objects(picture, labels);
    num_objects += std::ssize(picture.boxes);
  }
  names = labels;
  ByteHash pictures = labels;
  std::uint64_t left = ImageFolder::kFingerprintBytes;
  for (std::int64_t index = 0; index < num_pictures(); ++index) {
    hash_text(picture(index).file, names);
    left -= hash_picture_file(path(index), left, pictures);
  }
  DataFingerprint fingerprint;
  fingerprint.contents = fmt::format("{} pictures with {} objects of {} classes", num_pictures(), num_objects,
                                     class_names().size());
  fingerprint.hash = pictures.value();
  fingerprint.names_hash = names.value();
  return fingerprint;
}

void DetectionSet::keep_in(std::shared_ptr<PictureMemory> memory) {
  cache_ = std::make_unique<DecodedCache>(num_pictures(), std::move(memory));
}

void DetectionSet::check_size(std::int64_t index, ImageSize stored) const {
  const LabelledPicture& labelled = picture(index);
  if (labelled.size.num_pixels() == 0 || stored == labelled.size) return;
  throw BadImage(fmt::format(
      "picture {} (id {}) has {} x {} pixels, its annotations are for {} x {}: use the original picture",
      path(index).string(), labelled.id, stored.width, stored.height, labelled.size.width,
      labelled.size.height));
}

std::shared_ptr<const Image> DetectionSet::load(std::int64_t index,
                                                const ImageSource::ReductionChooser& choose) const {
  const PictureFile file{.path = path(index), .max_pixels = options_.max_pixels};
  const auto choose_checked = [&](ImageSize size) {
    check_size(index, size);
    return choose(size);
  };
  return load_picture_file(file, choose_checked, {.cache = cache_.get(), .index = index});
}

}  // namespace trireme

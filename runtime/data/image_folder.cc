#include "runtime/data/image_folder.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/data/picture_file.h"
#include "runtime/data/picture_listing.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) {
  return path.filename().string().front() == '.';
}

struct ClassFolders {
  std::vector<fs::path> folders, foreign;  // foreign: see FolderBounds
};

ClassFolders find_class_folders(const fs::path& root) {
  std::error_code error;
  TRIREME_CHECK(fs::exists(root, error), "image folder {} does not exist", root.string());
  TRIREME_CHECK(fs::is_directory(root, error), "{} is not a folder of class folders", root.string());
  const FolderBounds bounds(root);
  ClassFolders found;
  fs::directory_iterator entry(root, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (is_hidden(entry->path()) || !entry->is_directory(ignored)) continue;
    (bounds.is_foreign_link(entry->path()) ? found.foreign : found.folders).push_back(entry->path());
  }
  TRIREME_CHECK(!error, "cannot list image folder {}: {}", root.string(), error.message());
  TRIREME_CHECK(!found.folders.empty(),
                "image folder {} has no class folders: pictures are read from FOLDER/CLASS/PICTURE{}",
                root.string(),
                found.foreign.empty() ? "" : ", and not through links out of FOLDER that another user made");
  std::ranges::sort(found.folders);
  std::ranges::sort(found.foreign);
  return found;
}

PictureListing list_files(const fs::path& folder, const FolderBounds& bounds) {
  PictureListing found = list_pictures(folder, bounds);
  TRIREME_CHECK(!found.pictures.empty(),
                "class folder {} has no pictures (*.jpg, *.jpeg, *.png): fill or remove it", folder.string());
  if (!found.not_followed.empty()) {
    log_warning(
        fmt::format("{} link(s) below {} are not followed, as the folders that they lead to are read "
                    "already; the first is {}",
                    found.not_followed.size(), folder.string(), found.not_followed.front().string()));
  }
  return found;
}

}  // namespace

std::int64_t ImageFolder::count_classes(const fs::path& root) {
  return static_cast<std::int64_t>(find_class_folders(root).folders.size());
}

ImageFolder::ImageFolder(const Options& options) : options_(options) {
  const ClassFolders found = find_class_folders(options.root);
  foreign_links_ = found.foreign;
  const FolderBounds bounds(options.root);
  for (const fs::path& folder : found.folders) add_class(folder, bounds);
  if (num_unreadable_ > 0) log_warning(describe_unreadable());
  if (!foreign_links_.empty()) log_warning(describe_foreign_links());
}

void ImageFolder::add_class(const fs::path& folder, const FolderBounds& bounds) {
  const auto label = static_cast<std::int32_t>(class_names_.size());
  class_names_.push_back(folder.filename().string());
  const PictureListing files = list_files(folder, bounds);
  foreign_links_.insert(foreign_links_.end(), files.foreign.begin(), files.foreign.end());
  for (const std::string& picture : files.pictures) {
    labels_.push_back(label);
    paths_ += picture;
    path_ends_.push_back(paths_.size());
  }
  if (files.unreadable.empty()) return;
  if (num_unreadable_ == 0) first_unreadable_ = (folder / files.unreadable.front()).string();
  num_unreadable_ += static_cast<std::int64_t>(files.unreadable.size());
}

std::string ImageFolder::describe_unreadable() const {
  if (num_unreadable_ == 0) return "";
  return fmt::format(
      "{} picture(s) below {} are not read, as they are neither JPEG nor PNG by their names; the first is {}",
      num_unreadable_, options_.root.string(), first_unreadable_);
}

std::string ImageFolder::describe_foreign_links() const {
  if (foreign_links_.empty()) return "";
  return fmt::format(
      "left out: {} link(s) of other users that lead out of {}, the first is {}; to include the pictures, "
      "copy "
      "them, or make the links yourself",
      foreign_links_.size(), options_.root.string(), foreign_links_.front().string());
}

fs::path ImageFolder::path(std::int64_t index) const {
  const auto i = static_cast<std::size_t>(index);
  const std::size_t begin = i == 0 ? 0 : path_ends_[i - 1];
  const auto& class_name = class_names_[static_cast<std::size_t>(label(index))];
  return options_.root / class_name / std::string_view(paths_).substr(begin, path_ends_[i] - begin);
}

void ImageFolder::keep_in(std::shared_ptr<PictureMemory> memory) {
  cache_ = std::make_unique<DecodedCache>(num_images(), std::move(memory));
}

void ImageFolder::visit_files(const std::function<void(const fs::path&)>& visit) const {
  for (std::int64_t index = 0; index < num_images(); ++index) visit(path(index));
}

DataFingerprint ImageFolder::fingerprint() const {
  constexpr std::byte kSeparator{'/'};
  ByteHash labels;
  for (const std::string& name : class_names_) {
    labels.update(std::as_bytes(std::span(name)));
    labels.update({&kSeparator, 1});
  }
  labels.update(std::as_bytes(std::span(labels_)));
  ByteHash names = labels, pictures = labels;
  names.update(std::as_bytes(std::span(paths_)));
  names.update(std::as_bytes(std::span(path_ends_)));
  std::uint64_t left = kFingerprintBytes;
  for (std::int64_t index = 0; index < num_images(); ++index) {
    left -= hash_picture_file(path(index), left, pictures);
  }
  return {.contents = fmt::format("{} pictures in {} class folders", num_images(), class_names_.size()),
          .hash = pictures.value(),
          .names_hash = names.value()};
}

std::shared_ptr<const Image> ImageFolder::load(std::int64_t index, const ReductionChooser& choose) const {
  const PictureFile file{.path = path(index), .max_pixels = options_.max_pixels};
  return load_picture_file(file, choose, {.cache = cache_.get(), .index = index});
}

}  // namespace trireme

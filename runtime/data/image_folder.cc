#include "runtime/data/image_folder.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/file_identity.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/log.h"
#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/data/image_decode.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) {
  return path.filename().string().front() == '.';
}

enum class FileKind : std::uint8_t { kPicture, kUnreadable, kOther };

FileKind kind_of(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto is_one_of = [&extension](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, extension) != names.end();
  };
  if (is_one_of({".jpg", ".jpeg", ".png"})) return FileKind::kPicture;
  return is_one_of({".gif", ".bmp", ".webp", ".tif", ".tiff"}) ? FileKind::kUnreadable : FileKind::kOther;
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

/// Paths below a class folder, sorted.
struct Listing {
  std::vector<std::string> pictures, unreadable;
  std::vector<fs::path> not_followed;  // links to folders that were already read
  std::vector<fs::path> foreign;       // links that FolderBounds rejects
};

/// Lists a class folder: its own subfolders first, then folders behind links, each once.
class FolderWalk {
 public:
  FolderWalk(const fs::path& folder, const FolderBounds& bounds) : folder_(folder), bounds_(bounds) {}

  Listing list() {
    is_new(folder_);
    walk(folder_);
    for (std::size_t next = 0; next < links_.size(); ++next) {
      // Sort, because directory order depends on the file system.
      std::ranges::sort(links_.begin() + static_cast<std::ptrdiff_t>(next), links_.end());
      const fs::path link = links_[next];  // walk() appends
      if (is_new(link)) {
        walk(link);
      } else {
        found_.not_followed.push_back(link);
      }
    }
    std::ranges::sort(found_.pictures);
    std::ranges::sort(found_.unreadable);
    std::ranges::sort(found_.foreign);
    return std::move(found_);
  }

 private:
  bool is_new(const fs::path& folder) {
    const auto identity = FileIdentity::of(folder);
    return identity && seen_.emplace(identity->device, identity->inode).second;
  }

  void walk(const fs::path& folder) {
    std::error_code error;
    fs::recursive_directory_iterator entry(folder, error);
    for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
      std::error_code ignored;
      const bool is_folder = entry->is_directory(ignored), is_link = entry->is_symlink(ignored);
      if (is_hidden(entry->path())) {
        entry.disable_recursion_pending();
      } else if (is_link && bounds_.is_foreign_link(entry->path())) {
        found_.foreign.push_back(entry->path());
      } else if (is_folder && is_link) {
        links_.push_back(entry->path());
      } else if (is_folder) {
        if (!is_new(entry->path())) entry.disable_recursion_pending();
      } else {
        add_file(entry->path());
      }
    }
    TRIREME_CHECK(!error, "cannot list image folder {}: {}", folder.string(), error.message());
  }

  void add_file(const fs::path& path) {
    const FileKind kind = kind_of(path);
    if (kind == FileKind::kOther) return;
    auto& list = kind == FileKind::kPicture ? found_.pictures : found_.unreadable;
    list.push_back(path.lexically_relative(folder_).string());
  }

  fs::path folder_;
  const FolderBounds& bounds_;
  Listing found_;
  std::vector<fs::path> links_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen_;  // device and inode of folders
};

Listing list_files(const fs::path& folder, const FolderBounds& bounds) {
  Listing found = FolderWalk(folder, bounds).list();
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

/// Hashes the size of a file, and its contents if they have at most `limit` bytes. Returns the number of
/// content bytes read. An unreadable file counts as size 0.
std::uint64_t hash_picture(const fs::path& path, std::uint64_t limit, ByteHash& hash) {
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
  const Listing files = list_files(folder, bounds);
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
    left -= hash_picture(path(index), left, pictures);
  }
  return {.contents = fmt::format("{} pictures in {} class folders", num_images(), class_names_.size()),
          .hash = pictures.value(),
          .names_hash = names.value()};
}

std::shared_ptr<const Image> ImageFolder::load(std::int64_t index, const ReductionChooser& choose) const {
  if (cache_) {
    if (auto image = cache_->find(index, choose)) return image;
  }
  const fs::path file = path(index);
  const MappedFile mapped = open_picture(file);
  const EncodedImage encoded{
      .bytes = mapped.bytes(), .name = file.string(), .max_pixels = options_.max_pixels};
  const ImageSize size = read_image_size(encoded);
  const int reduction = choose(size);
  auto image = std::make_shared<const Image>(decode_image(encoded, reduction));
  if (cache_) cache_->insert(index, size, reduction, *image);
  return image;
}

}  // namespace trireme

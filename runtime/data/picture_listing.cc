#include "runtime/data/picture_listing.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <set>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/file_identity.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool is_hidden_entry(const fs::path& path) {
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

/// Lists a folder: its own subfolders first, then folders behind links, each once.
class PictureWalk {
 public:
  PictureWalk(const fs::path& folder, const FolderBounds& bounds) : folder_(folder), bounds_(bounds) {}

  PictureListing list() {
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
      if (is_hidden_entry(entry->path())) {
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
  PictureListing found_;
  std::vector<fs::path> links_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen_;  // device and inode of folders
};

}  // namespace

PictureListing list_pictures(const fs::path& folder, const FolderBounds& bounds) {
  return PictureWalk(folder, bounds).list();
}

}  // namespace trireme

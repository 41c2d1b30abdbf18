#include "runtime/base/folder_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "runtime/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// The folder that must contain everything below `folder`: itself, or the cached repository it is part of.
fs::path root_of(const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder.empty() ? "." : folder, error);
  if (error) return fs::absolute(folder, error).lexically_normal();
  for (fs::path part = real; part != part.root_path(); part = part.parent_path()) {
    const fs::path snapshots = part.parent_path(), repository = snapshots.parent_path();
    const std::string name = repository.filename().string();
    if (snapshots.filename() == "snapshots" &&
        (name.starts_with("models--") || name.starts_with("datasets--")))
      return repository;
  }
  return real;
}

}  // namespace

bool is_folder_file_name(const std::string& name) {
  const fs::path path = name;
  return !name.empty() && name.find('\0') == std::string::npos && path.is_relative() && path.has_filename() &&
         std::ranges::find(path, fs::path("..")) == path.end();
}

FolderBounds::FolderBounds(const fs::path& folder) : root_(root_of(folder)) {}

bool FolderBounds::lead_out(const fs::path& path) const {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return false;
  const auto [root, rest] = std::ranges::mismatch(root_, real);
  return root != root_.end();
}

bool FolderBounds::is_foreign_link(const fs::path& path) const {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return false;
  return info.st_uid != 0 && info.st_uid != ::geteuid() && lead_out(path);
}

void check_is_within(const FolderFile& file) {
  const fs::path path = file.folder / file.name;
  if (!FolderBounds(file.folder).lead_out(path)) return;
  std::error_code error;
  throw Error(
      ErrorCode::kInvalidInput,
      "the {} {} is a link to {}, outside of its folder: copy it into the folder if you trust whoever "
      "made the link, or name the folder that it leads to",
      file.what, path.string(), fs::canonical(path, error).string());
}

fs::path file_of_folder(const FolderFile& file) {
  TRIREME_CHECK(is_folder_file_name(file.name),
                "the {} of {} is \"{:.200}\", which is no name of a file in that folder: copy the file into "
                "the folder and write its name there, without \"/\" at the beginning and \"..\"",
                file.what, file.folder.string(), file.name.c_str());  // up to a NUL
  const fs::path path = file.folder / file.name;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  TRIREME_CHECK(fs::exists(status), "the {} {}{:.200} {}", file.what, (file.folder / "").string(), file.name,
                error && error != std::errc::no_such_file_or_directory ? error.message() : "does not exist");
  check_is_within(file);
  TRIREME_CHECK(fs::is_regular_file(status), "the {} {} is not a regular file", file.what, path.string());
  return path;
}

}  // namespace trireme

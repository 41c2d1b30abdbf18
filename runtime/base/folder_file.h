// Files that a folder names, or links to, itself: nothing outside the folder is reached through them.
//
// [Note: folders of strangers] A data set, checkpoint or model may come from somebody else. A name in its
// description such as "/etc/shadow" or "../../key", or a link to such a file, would make a job read a file of
// the user and copy it into results. The path of the folder itself is the user's own word: links in it are
// followed, and a file that the user names may itself be a link. Files that are found in the folder must end
// inside it, texts and large files alike. A snapshot of Hugging Face's cache
// ("models--NAME/snapshots/REVISION") is one with its "models--NAME" folder, where its links lead.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

/// True if `name` can name a file below a folder: relative, not empty, without ".." and NUL.
bool is_folder_file_name(const std::string& name);

struct FolderFile {
  std::filesystem::path folder;  // as the user gave it
  std::string name;              // as the folder's files have it; untrusted
  const char* what = "file";     // its role in messages: "tokenizer"
};

/// `folder / name`. Throws Error(kInvalidInput) naming both unless it is a regular file that lies in the
/// folder after all links are followed. Another user who can write the folder can exchange the file later.
std::filesystem::path file_of_folder(const FolderFile& file);

/// The same for a file, or a folder, whose name this program chose, and that may be missing. Throws
/// Error(kInvalidInput) naming the path and where it leads if it lies outside of the folder.
void check_is_within(const FolderFile& file);

/// True if links below a folder lead out of it.
class FolderBounds {
 public:
  explicit FolderBounds(const std::filesystem::path& folder);

  /// False for a path that does not exist.
  bool lead_out(const std::filesystem::path& path) const;
  /// True if a path is a link that leads out and that another user made: not this one, and not root.
  bool is_foreign_link(const std::filesystem::path& path) const;

 private:
  std::filesystem::path root_;  // without links
};

}  // namespace trireme

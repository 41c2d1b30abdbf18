// Finds the pictures below a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/folder_file.h"

namespace trireme {

/// Paths below a folder, sorted.
struct PictureListing {
  std::vector<std::string> pictures;    // *.jpg, *.jpeg and *.png, upper or lower case
  std::vector<std::string> unreadable;  // pictures in other formats: *.gif, *.bmp, *.webp, *.tif, *.tiff
  std::vector<std::filesystem::path> not_followed;  // links to folders that were already read
  std::vector<std::filesystem::path> foreign;       // links that `bounds` rejects
};

/// Lists its own subfolders first, then folders behind links, each once. Names that begin with a dot are
/// skipped. Throws Error(kInvalidInput) naming a folder that cannot be listed.
PictureListing list_pictures(const std::filesystem::path& folder, const FolderBounds& bounds);

}  // namespace trireme

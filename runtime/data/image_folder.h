// A folder with one subfolder of JPEG and PNG files per class.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/folder_file.h"
#include "runtime/data/decoded_cache.h"
#include "runtime/data/image_source.h"

namespace trireme {

/// The folders below `root` are the classes, labelled 0, 1, ... in byte order of their names. The images of a
/// class are all *.jpg, *.jpeg and *.png files below its folder (upper or lower case), in order of their
/// paths. Links to files and to folders are followed; within a class a folder is read once, through any
/// number of links. Links out of `root` are followed only if this user or root made them, so that other users
/// with write access cannot choose which of this user's files are read. Names that begin with a dot are
/// skipped.
class ImageFolder final : public ImageSource {
 public:
  struct Options {
    std::filesystem::path root;
    std::int64_t max_pixels = 0;  // of an image: see EncodedImage
  };
  static constexpr std::uint64_t kFingerprintBytes = std::uint64_t{256} << 20;

  /// Lists the files without opening them. Warns about images of other formats. Throws Error(kInvalidInput)
  /// naming the folder if it is missing or cannot be listed, has no class folders, or a class folder has no
  /// images.
  explicit ImageFolder(const Options& options);
  /// The number of classes of such a folder, without listing images. Throws as the constructor does.
  static std::int64_t count_classes(const std::filesystem::path& root);

  std::int64_t num_images() const override { return static_cast<std::int64_t>(labels_.size()); }
  std::int32_t label(std::int64_t index) const override {
    return labels_.at(static_cast<std::size_t>(index));
  }
  std::string name(std::int64_t index) const override { return path(index).string(); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  /// Covers the class names, the label and file size of every image, and the contents of the first
  /// kFingerprintBytes, because reading a whole large set would take too long.
  DataFingerprint fingerprint() const override;
  void visit_files(const std::function<void(const std::filesystem::path&)>& visit) const override;
  void keep_in(std::shared_ptr<PictureMemory> memory) override;
  std::shared_ptr<const Image> load(std::int64_t index, const ReductionChooser& choose) const override;

  std::filesystem::path path(std::int64_t index) const;

  /// Number of images in unsupported formats: *.gif, *.bmp, *.webp, *.tif, *.tiff.
  std::int64_t num_unreadable() const { return num_unreadable_; }
  /// Their number and the first path; empty if there are none.
  std::string describe_unreadable() const;
  /// The skipped links out of the folder, with the remedy; empty if there are none.
  std::string describe_foreign_links() const;

 private:
  void add_class(const std::filesystem::path& folder, const FolderBounds& bounds);

  Options options_;
  std::vector<std::string> class_names_;
  std::vector<std::int32_t> labels_;
  // Paths below the class folders in one string: a million separate strings take twice the memory.
  std::string paths_;
  std::vector<std::size_t> path_ends_;
  std::int64_t num_unreadable_ = 0;
  std::string first_unreadable_;
  std::vector<std::filesystem::path> foreign_links_;
  std::unique_ptr<DecodedCache> cache_;  // null: none
};

}  // namespace trireme

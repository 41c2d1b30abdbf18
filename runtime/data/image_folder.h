// A folder of class folders of JPEG and PNG files.
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

/// The folders below `root` are the classes, labelled 0, 1, ... in order of their names (as bytes); the
/// pictures of a class are all *.jpg, *.jpeg and *.png files below its folder (upper or lower case), in order
/// of their paths. Links to files and to folders are followed; within a class a folder is read once, whatever
/// links lead to it. Links out of `root` are followed only if this user or root made them: others who can
/// write the folder must not choose which of this user's files are read. What begins with a dot is left out.
class ImageFolder final : public ImageSource {
 public:
  struct Options {
    std::filesystem::path root;
    std::int64_t max_pixels = 0;  // of a picture: see EncodedImage
  };
  static constexpr std::uint64_t kFingerprintBytes = std::uint64_t{256} << 20;

  /// Lists the files, opens none. Warns of pictures of other formats. Throws Error(kInvalidInput) naming the
  /// folder when it is missing or cannot be listed, has no class folders, or a class folder has no pictures.
  explicit ImageFolder(const Options& options);

  std::int64_t num_images() const override { return static_cast<std::int64_t>(labels_.size()); }
  std::int32_t label(std::int64_t index) const override {
    return labels_.at(static_cast<std::size_t>(index));
  }
  std::string name(std::int64_t index) const override { return path(index).string(); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  /// Of the class names, of the label and file size of every picture, and of the contents of the first
  /// kFingerprintBytes: reading all of a large set would take too long.
  DataFingerprint fingerprint() const override;
  void visit_files(const std::function<void(const std::filesystem::path&)>& visit) const override;
  void keep_in(std::shared_ptr<PictureMemory> memory) override;
  std::shared_ptr<const Image> load(std::int64_t index, const ReductionChooser& choose) const override;

  std::filesystem::path path(std::int64_t index) const;

  /// Pictures of formats that are not read: *.gif, *.bmp, *.webp, *.tif, *.tiff.
  std::int64_t num_unreadable() const { return num_unreadable_; }
  /// Their number, with the first of them; empty where there are none.
  std::string describe_unreadable() const;
  /// The links out of the folder that are left out, with what to do; empty where there are none.
  std::string describe_foreign_links() const;

 private:
  void add_class(const std::filesystem::path& folder, const FolderBounds& bounds);

  Options options_;
  std::vector<std::string> class_names_;
  std::vector<std::int32_t> labels_;
  // Paths below the class folders, in one piece: a million separate strings take twice the memory.
  std::string paths_;
  std::vector<std::size_t> path_ends_;
  std::int64_t num_unreadable_ = 0;
  std::string first_unreadable_;
  std::vector<std::filesystem::path> foreign_links_;
  std::unique_ptr<DecodedCache> cache_;  // null: none
};

}  // namespace trireme

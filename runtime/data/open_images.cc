#include "runtime/data/open_images.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/packed_images.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// "x-images-idx3-ubyte" -> "x-labels-idx1-ubyte".
fs::path labels_of(const fs::path& images) {
  std::string name = images.filename().string();
  const auto replace = [&name](const std::string& from, const std::string& to) {
    if (const auto at = name.rfind(from); at != std::string::npos) name.replace(at, from.size(), to);
  };
  replace("images", "labels");
  replace("idx3", "idx1");
  TRIREME_CHECK(name != images.filename().string(),
                "cannot tell where the labels of {} are: its name has no \"images\" to replace by \"labels\"",
                images.string());
  return images.parent_path() / name;
}

std::unique_ptr<ImageSource> open_file(const fs::path& path) {
  const bool idx = path.filename().string().find("idx") != std::string::npos;
  if (idx) return PackedImages::idx(path, labels_of(path));
  return PackedImages::cifar({path});
}

/// The first of `names` that is in `folder`; empty when none is.
fs::path find_one(const fs::path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (fs::is_regular_file(folder / name)) return folder / name;
  }
  return {};
}

std::vector<fs::path> find_cifar(const fs::path& folder, ImageSplit split) {
  std::vector<fs::path> files;
  if (split == ImageSplit::kTrain) {
    for (int i = 1; fs::is_regular_file(folder / fmt::format("data_batch_{}.bin", i)); ++i) {
      files.push_back(folder / fmt::format("data_batch_{}.bin", i));
    }
  }
  if (!files.empty()) return files;
  const fs::path one = split == ImageSplit::kTrain ? find_one(folder, {"train.bin"})
                                                   : find_one(folder, {"test_batch.bin", "test.bin"});
  if (!one.empty()) files.push_back(one);
  return files;
}

fs::path find_idx(const fs::path& folder, ImageSplit split) {
  return split == ImageSplit::kTrain
             ? find_one(folder, {"train-images-idx3-ubyte", "train-images.idx3-ubyte"})
             : find_one(folder, {"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"});
}

}  // namespace

std::unique_ptr<ImageSource> open_images(const OpenImagesOptions& options) {
  const fs::path& path = options.path;
  TRIREME_CHECK(fs::exists(path), "there is no {}: a folder of class folders, or CIFAR or IDX files",
                path.string());
  if (!fs::is_directory(path)) return open_file(path);
  if (const auto files = find_cifar(path, options.split); !files.empty()) return PackedImages::cifar(files);
  if (const auto images = find_idx(path, options.split); !images.empty()) {
    return PackedImages::idx(images, labels_of(images));
  }
  return std::make_unique<ImageFolder>(ImageFolder::Options{
      .root = path, .max_pixels = options.max_pixels, .cache_bytes = options.cache_bytes});
}

}  // namespace trireme

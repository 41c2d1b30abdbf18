#include "runtime/data/open_images.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/regular_file.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/packed_images.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// The labels file: "x-images-idx3-ubyte" -> "x-labels-idx1-ubyte".
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

/// The first of `names` that exists in `folder`; empty if none does.
fs::path find_one(const fs::path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (fs::is_regular_file(folder / name)) return folder / name;
  }
  return {};
}

/// N of "data_batch_N.bin"; 0 for other names.
int batch_number(const std::string& name) {
  constexpr std::string_view kPrefix = "data_batch_", kSuffix = ".bin";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return 0;
  int number = 0;
  const char* const end = name.data() + name.size() - kSuffix.size();
  const auto [read, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
  return error == std::errc() && read == end ? number : 0;
}

/// data_batch_1.bin to the last one. A gap is an error, because missing images would go unnoticed.
std::vector<fs::path> find_batches(const fs::path& folder) {
  int last = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    last = std::max(last, batch_number(entry.path().filename().string()));
  }
  std::vector<fs::path> files;
  for (int i = 1; i <= last; ++i) {
    files.push_back(folder / fmt::format("data_batch_{}.bin", i));
    TRIREME_CHECK(fs::is_regular_file(files.back()),
                  "{} is missing, but {} has data_batch_{}.bin: the set is not whole", files.back().string(),
                  folder.string(), last);
  }
  return files;
}

std::vector<fs::path> find_cifar(const fs::path& folder, ImageSplit split) {
  std::vector<fs::path> files;
  if (split == ImageSplit::kTrain) files = find_batches(folder);
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

void check_is_packed_within(const fs::path& folder, const fs::path& file) {
  check_is_within({.folder = folder, .name = file.filename().string(), .what = "file of packed pictures"});
}

}  // namespace

std::unique_ptr<ImageSource> open_images(const OpenImagesOptions& options) {
  const fs::path& path = options.path;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  TRIREME_CHECK(status.type() != fs::file_type::not_found,
                "{}; pictures are a folder of class folders, or CIFAR or IDX files", describe_missing(path));
  TRIREME_CHECK(!error, "cannot open {}: {}", path.string(), error.message());
  if (!fs::is_directory(status)) return open_file(path);
  if (const auto files = find_cifar(path, options.split); !files.empty()) {
    for (const fs::path& file : files) check_is_packed_within(path, file);
    return PackedImages::cifar(files);
  }
  if (const auto images = find_idx(path, options.split); !images.empty()) {
    const fs::path labels = labels_of(images);
    for (const fs::path& file : {images, labels}) check_is_packed_within(path, file);
    return PackedImages::idx(images, labels);
  }
  return std::make_unique<ImageFolder>(ImageFolder::Options{.root = path, .max_pixels = options.max_pixels});
}

std::int64_t count_class_folders(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return 0;
  try {
    if (!find_cifar(path, ImageSplit::kTrain).empty() || !find_idx(path, ImageSplit::kTrain).empty())
      return 0;
    return ImageFolder::count_classes(path);
  } catch (const Error&) {
    return 0;  // open_images() gives the reason
  }
}

}  // namespace trireme

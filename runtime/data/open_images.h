// Detects the storage format of a set of images, and opens it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "runtime/data/image_decode.h"
#include "runtime/data/image_source.h"

namespace trireme {

enum class ImageSplit : std::uint8_t { kTrain, kEval };

struct OpenImagesOptions {
  /// One of
  ///   a folder with CIFAR's data_batch_*.bin and test_batch.bin, or train.bin and test.bin (CIFAR-100)
  ///   a folder with MNIST's train-images-idx3-ubyte, t10k-images-idx3-ubyte and their labels
  ///   one CIFAR file
  ///   one IDX file of images, with "idx" and "images" in its name; the labels' name has "labels" instead
  ///   a folder of class folders
  std::filesystem::path path;
  ImageSplit split = ImageSplit::kTrain;  // the files to use from a folder with both
  std::int64_t max_pixels = kDefaultMaxPixels;
};

/// Throws Error(kInvalidInput) naming the path if it has no such files, and the errors of the formats.
std::unique_ptr<ImageSource> open_images(const OpenImagesOptions& options);

/// The number of class folders in `path`; 0 if it holds no class folders or is missing.
std::int64_t count_class_folders(const std::filesystem::path& path);

}  // namespace trireme

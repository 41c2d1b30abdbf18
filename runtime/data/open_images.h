// Finds out how a set of pictures is stored, and opens it.
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
  ///   one CIFAR file; or one IDX file of pictures: its name has "idx", and "images" where its labels' has
  ///   "labels" a folder of class folders
  std::filesystem::path path;
  ImageSplit split = ImageSplit::kTrain;  // which files of a folder that has both
  std::int64_t max_pixels = kDefaultMaxPixels;
};

/// Throws Error(kInvalidInput) naming the path when nothing of the kind is there, and what the formats throw.
std::unique_ptr<ImageSource> open_images(const OpenImagesOptions& options);

}  // namespace trireme

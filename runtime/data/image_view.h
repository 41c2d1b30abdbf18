// The network's view of an image: a square crop, scaled, mirrored, normalised.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/data/image_random.h"
#include "runtime/data/image_source.h"
#include "runtime/data/resample.h"

namespace trireme {

struct ViewOptions {
  enum class Crop : std::uint8_t {
    kCenter,         // the center square: as in evaluation
    kPadded,         // the center square, shifted by up to `padding` output pixels; black at the edges
    kRandomResized,  // a crop of random area and aspect (Szegedy et al. 2015)
  };
  int size = 0;  // side of the view, pixels
  Crop crop = Crop::kCenter;
  double center = 1.0;  // side of the center square, relative to the shorter side of the image
  int padding = 0;      // kPadded
  std::array<double, 2> area = {0.08, 1.0};        // kRandomResized: fraction of the image
  std::array<double, 2> aspect = {0.75, 4.0 / 3};  // kRandomResized: width / height
  bool flip = false;                               // mirrored with probability 1/2
  std::array<double, 3> mean = {0, 0, 0};          // of red, green and blue in [0, 1]: subtracted
  std::array<double, 3> stddev = {1, 1, 1};        // then divided by
};

/// Writes the view of image `index` to `out` [size, size, 3] fp32. Without `random` it is the center square,
/// without crop or flip. A JPEG is decoded at the smallest reduced size not below the view, which depends on
/// the image and the draws. Throws the errors of source.load().
void render_view(const ImageSource& source, std::int64_t index, const ViewOptions& options,
                 const std::optional<ImageRandom>& random, float* out);

/// The crop of kRandomResized, by torchvision's rule. Makes up to ten draws of an area and a log aspect until
/// one fits, else uses the largest center crop with an allowed aspect. Whole pixels.
ImageBox draw_resized_crop(ImageSize size, const ViewOptions& options, ImageRandom& random);

/// Divides `pixels` [..., 3] of 0 to 255 by 255, subtracts the mean of their channel and divides by its
/// stddev.
void normalise_pixels(std::span<float> pixels, const std::array<double, 3>& mean,
                      const std::array<double, 3>& stddev);

}  // namespace trireme

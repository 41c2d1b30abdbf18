// The part of a picture that the network sees: a square cut out of it, scaled, mirrored, normalised.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "runtime/data/image_random.h"
#include "runtime/data/image_source.h"
#include "runtime/data/resample.h"

namespace trireme {

struct ViewOptions {
  enum class Crop : std::uint8_t {
    kCenter,         // the middle square: as in evaluation
    kPadded,         // the middle square, moved by up to `padding` output pixels; black comes in at the edges
    kRandomResized,  // any part of the picture of random area and aspect (Szegedy et al. 2015)
  };
  int size = 0;  // side of the view, pixels
  Crop crop = Crop::kCenter;
  double center = 1.0;                       // side of the middle square in shorter sides of the picture
  int padding = 0;                           // kPadded
  std::array<double, 2> area = {0.08, 1.0};  // kRandomResized: part of the picture
  std::array<double, 2> aspect = {0.75, 4.0 / 3};  // kRandomResized: width / height
  bool flip = false;                               // mirrored with probability 1/2
  std::array<double, 3> mean = {0, 0, 0};          // of red, green and blue in [0, 1]: subtracted
  std::array<double, 3> stddev = {1, 1, 1};        // then divided by
};

/// Writes the view of picture `index` to `out` [size, size, 3] fp32. Without `random` it is the middle
/// square, whatever options.crop and options.flip say. A JPEG is decoded at the smallest size that is not
/// smaller than the view, which follows from the picture and the draws. Throws what source.load() throws.
void render_view(const ImageSource& source, std::int64_t index, const ViewOptions& options,
                 const std::optional<ImageRandom>& random, float* out);

/// The crop of kRandomResized: up to ten draws of an area and an aspect (in its logarithm) until one fits,
/// else the largest middle part with an aspect that is allowed. Whole pixels. The same rule as torchvision's.
ImageBox draw_resized_crop(ImageSize size, const ViewOptions& options, ImageRandom& random);

}  // namespace trireme

// The place of pictures and their boxes in a sample: letterbox, Mosaic and MixUp.
//
// [Note: picture layout] All geometry is scale, shift and mirror. A sample is therefore a list of rectangles
// of whole pixels, each filled by resampling a part of a stored picture. Boxes follow the same map, so pixels
// and boxes cannot disagree. Rotation and shear are left out: they would need boxes of polygons.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/detection/labelled_box.h"
#include "runtime/data/image_random.h"
#include "runtime/data/resample.h"

namespace trireme {

/// A part of a picture, and the rectangle that it fills in a sample.
struct PicturePart {
  int member = 0;               // of the group of pictures
  ImageBox from;                // in pixels of the stored picture
  int x = 0, y = 0;             // in pixels of the sample
  int width = 0, height = 0;    // at least 1
  Mirror mirror = Mirror::kNo;  // within the rectangle

  /// The box in pixels of the sample, not clipped.
  ImageBox to_sample(const ImageBox& box) const;
  /// The reverse.
  ImageBox to_picture(const ImageBox& box) const;
};

/// The whole picture in the upper left corner of a square of `side` pixels, as large as fits. The scales of
/// both sides differ by the rounding to whole pixels.
PicturePart letterbox(ImageSize size, int side);

/// The pixels of a sample: the mean of its layers. A layer has the grey kLetterboxGrey where it has no part.
struct PictureLayout {
  std::vector<std::vector<PicturePart>> layers;
};
inline constexpr float kLetterboxGrey = 114;

/// The random choices of training samples. The defaults leave pictures in their letterbox.
struct LayoutOptions {
  double mosaic_probability = 0;                   // four pictures that meet at a random point
  double mixup_probability = 0;                    // then the mean with another picture
  std::array<double, 2> scale = {1, 1};            // of single pictures and of mosaics, on the letterbox
  std::array<double, 2> mixup_scale = {0.5, 1.5};  // of the other picture
  double shift = 0;                                // up to this fraction of the side, in both directions
  double flip_probability = 0;                     // mirrored

  /// The largest scale of a picture.
  double max_scale() const;
};

/// Draws the layout of the sample of member `own` of a group of pictures of `sizes`. Its partners are other
/// members, each at most once in a mosaic if the group has four.
PictureLayout draw_layout(const LayoutOptions& options, std::span<const ImageSize> sizes, int own, int side,
                          ImageRandom& random);

/// The boxes that remain in a sample after they are clipped to their part.
struct KeepOptions {
  double min_side = 2;       // pixels of the sample
  double min_visible = 0.1;  // fraction of the area of the box
};

/// An object in a sample.
struct SampleBox {
  ImageBox box;  // in pixels of the sample, clipped
  std::int32_t label = 0;
};

/// Appends the objects of a picture that are visible in its part. Boxes are first clipped to the picture of
/// `size`, as torchvision and YOLOX do. Crowds and empty boxes are left out.
void add_visible_boxes(const PicturePart& part, ImageSize size, std::span<const LabelledBox> objects,
                       const KeepOptions& keep, std::vector<SampleBox>& boxes);

}  // namespace trireme

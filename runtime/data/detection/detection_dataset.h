// Pictures with boxes as training and evaluation samples.
//
// [Note: detection groups] Samples g, ..., g + 7 in training order, g a multiple of 8, share their pictures:
// partners in Mosaic and MixUp are other members of the group. The training order is random, so these are
// random partners. A sample is still a function of the seed and its index, and a thread that reads a whole
// group decodes each picture once. See [Note: mixing groups] for pictures with a label.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/detection/color_jitter.h"
#include "runtime/data/detection/detection_set.h"
#include "runtime/data/detection/picture_layout.h"

namespace trireme {

/// A picture as an evaluation and a detection see it.
struct LetterboxView {
  int side = 0;                              // pixels
  std::array<double, 3> mean = {0, 0, 0};    // of red, green and blue in [0, 1]: subtracted
  std::array<double, 3> stddev = {1, 1, 1};  // then divided by

  /// For ImageSource::ReductionChooser.
  int reduction(ImageSize stored) const;
  /// Writes `image` of the stored size to `pixels` [side, side, 3], normalised.
  void draw(const Image& image, ImageSize stored, std::span<float> pixels) const;
};

/// Inputs are [B, S, S, 3] fp32, normalised. Targets are number_targets [B, M, 5]: label, center x, center y,
/// width and height in pixels of the sample, for each object; rows without an object have the label -1 and
/// zeros. The weights of targets [B] are 1 in training order from mix_until on, and else 0: the weight of the
/// loss' L1 term. In training order a pass uses each picture once (see [Note: training order]); in file order
/// the view is the letterbox, with the boxes of all objects that are not crowds. A picture that cannot be
/// decoded is an error.
class DetectionDataset final : public Dataset {
 public:
  struct Options {
    std::shared_ptr<const DetectionSet> set;
    /// Sides of training samples in pixels. One of them is drawn for every `samples_per_side` samples in
    /// training order, for instance for those of ten steps. A request never spans two sides.
    std::vector<int> sides;
    std::int64_t samples_per_side = 0;  // 0: sides has one element
    int eval_side = 0;                  // 0: the largest of sides
    LayoutOptions layout;
    /// Mosaic and MixUp end at this sample of training order; -1: never.
    std::int64_t mix_until = -1;
    KeepOptions keep;
    ColorJitter jitter;
    std::array<double, 3> mean = {0, 0, 0};    // of red, green and blue in [0, 1]: subtracted
    std::array<double, 3> stddev = {1, 1, 1};  // then divided by
    /// M; a sample with more objects keeps the largest of them. 0: the largest possible number.
    int max_boxes = 0;
    std::uint64_t seed = 0;
  };
  /// Throws Error(kInvalidInput) for a set without pictures, a side that is not positive, several sides
  /// without samples_per_side, a range or a probability out of order, or a negative number.
  explicit DetectionDataset(const Options& options);

  std::int64_t num_samples() const override { return options_.set->num_pictures(); }
  /// The loss counts pictures; a detector's loss divides by foreground anchors on its own.
  std::int64_t targets_per_sample() const override { return 1; }
  HostBatch read_train(std::int64_t first, std::int64_t count) const override;
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override;
  std::int64_t samples_per_read() const override { return is_mixed() ? kGroupSize : 4; }

  /// M of the targets.
  int max_boxes() const { return options_.max_boxes; }
  /// Side of a sample in training order.
  int train_side(std::int64_t sample) const;

  static constexpr int kGroupSize = 8;

 private:
  class Group;
  struct Sample;
  bool is_mixed() const {
    return options_.layout.mosaic_probability > 0 || options_.layout.mixup_probability > 0;
  }
  int possible_boxes() const;
  std::int64_t picture_of(std::int64_t sample) const;
  HostBatch empty_batch(std::int64_t first, std::int64_t count, int side) const;
  void write_train(std::int64_t sample, Group& group, const Sample& out) const;
  void write_boxes(std::vector<SampleBox> boxes, std::span<float> out) const;

  Options options_;
};

}  // namespace trireme

// Images as training and evaluation samples.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/data/bad_images.h"
#include "runtime/data/dataset.h"
#include "runtime/data/image_mix.h"
#include "runtime/data/image_source.h"
#include "runtime/data/image_view.h"

namespace trireme {

/// Inputs are [B, S, S, 3] fp32, normalised. Targets are labels [B], or with mixing [B, K] with weights (see
/// HostBatch). In training order a pass uses each image once (see [Note: training order]), with views by
/// options.view; in file order the view is the center square. A sample is a function of the seed and its
/// index.
///
/// An image that cannot be decoded is an error. With OnBadImage::kSkip it is skipped, and in training
/// replaced by the next good one in file order. All ranks make the same choice, because an image is good or
/// bad regardless of the reader.
class ImageDataset final : public Dataset {
 public:
  enum class OnBadImage : std::uint8_t { kFail, kSkip };
  struct Options {
    std::shared_ptr<const ImageSource> source;
    ViewOptions view;
    MixOptions mix;  // training only
    OnBadImage on_bad_image = OnBadImage::kFail;
    std::uint64_t seed = 0;
  };
  /// Throws Error(kInvalidInput) when the source is empty or has more than 2^32 images, or the size is not
  /// positive.
  explicit ImageDataset(const Options& options);

  std::int64_t num_samples() const override { return options_.source->num_images(); }
  std::int64_t targets_per_sample() const override { return 1; }
  HostBatch read_train(std::int64_t first, std::int64_t count) const override;
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override;
  std::int64_t samples_per_read() const override { return 4; }
  std::vector<std::string> left_out() const override { return bad_.reasons(); }

 private:
  class MixingGroup;
  std::int64_t view_elems() const { return std::int64_t{options_.view.size} * options_.view.size * 3; }
  HostBatch empty_batch(std::int64_t first, std::int64_t count, int num_labels) const;
  /// Renders an image and returns its label; nullopt if it is skipped. Throws if skipping is off.
  std::optional<std::int32_t> render_if_good(std::int64_t index, const std::optional<ImageRandom>& random,
                                             float* out) const;
  /// Renders an image, or the next good one instead, and returns its label.
  std::int32_t render(std::int64_t index, const ImageRandom& random, float* out) const;
  std::int32_t render_training_sample(std::int64_t sample, float* out) const;

  Options options_;
  mutable BadImages bad_;
};

}  // namespace trireme

// Pictures as training and evaluation samples.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/data/bad_images.h"
#include "runtime/data/dataset.h"
#include "runtime/data/image_mix.h"
#include "runtime/data/image_source.h"
#include "runtime/data/image_view.h"

namespace trireme {

/// Inputs are [B, S, S, 3] fp32, normalised; targets labels [B], or with mixing [B, K] with weights (see
/// HostBatch). In training order a pass holds each picture once (see [Note: training order]), seen as
/// options.view says; in file order it is the middle square. A sample follows from the seed and its index
/// alone.
///
/// A picture that cannot be decoded is refused, or with OnBadImage::kSkip left out, in training replaced by
/// the next good one in file order, for everybody alike: whether a picture is good does not depend on who
/// reads it.
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
  /// Throws Error(kInvalidInput) when the source is empty or has more than 2^32 pictures, or the size is not
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
  /// Renders a picture and returns its label; nothing for one that is left out. Throws where none may be.
  std::optional<std::int32_t> render_if_good(std::int64_t index, const std::optional<ImageRandom>& random,
                                             float* out) const;
  /// Renders a picture, or the next good one in its place, and returns its label.
  std::int32_t render(std::int64_t index, const ImageRandom& random, float* out) const;
  std::int32_t render_training_sample(std::int64_t sample, float* out) const;

  Options options_;
  mutable BadImages bad_;
};

}  // namespace trireme

#include "runtime/data/image_dataset.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/data/image_decode.h"
#include "runtime/data/permutation.h"

namespace trireme {

/// The views of a group of neighbouring samples, rendered on first use.
class ImageDataset::MixingGroup {
 public:
  explicit MixingGroup(const ImageDataset& data)
      : data_(data), members_(static_cast<std::size_t>(data.options_.mix.group_size())) {}

  /// Moves to the group of `sample`; returns the sample's position in it.
  int enter(std::int64_t sample) {
    const auto size = static_cast<std::int64_t>(members_.size());
    const std::int64_t first = sample - sample % size;
    if (first != first_) {
      for (Member& member : members_) member.is_rendered = false;
      first_ = first;
    }
    return static_cast<int>(sample - first);
  }
  const float* view(int member) { return rendered(member).view.data(); }
  std::int32_t label(int member) { return rendered(member).label; }

 private:
  struct Member {
    bool is_rendered = false;
    std::vector<float> view;
    std::int32_t label = 0;
  };
  Member& rendered(int index) {
    Member& member = members_[static_cast<std::size_t>(index)];
    if (!member.is_rendered) {
      member.view.resize(static_cast<std::size_t>(data_.view_elems()));
      member.label = data_.render_training_sample(first_ + index, member.view.data());
      member.is_rendered = true;
    }
    return member;
  }

  const ImageDataset& data_;
  std::int64_t first_ = -1;
  std::vector<Member> members_;
};

ImageDataset::ImageDataset(const Options& options) : options_(options) {
  TRIREME_CHECK(options.source && options.source->num_images() > 0, "there are no pictures");
  TRIREME_CHECK(options.source->num_images() <= (std::int64_t{1} << 32),
                "{} pictures are too many: at most 2^32", options.source->num_images());
  TRIREME_CHECK(options.view.size > 0, "the side of a view must be positive, not {}", options.view.size);
}

HostBatch ImageDataset::empty_batch(std::int64_t first, std::int64_t count, int num_labels) const {
  TRIREME_CHECK(first >= 0 && count >= 0, "cannot read {} samples from sample {}", count, first);
  const std::int64_t side = options_.view.size;
  HostBatch batch;
  batch.input_shape = {count, side, side, 3};
  batch.target_shape = num_labels > 1 ? Shape{count, num_labels} : Shape{count};
  batch.input_dtype = DType::kFloat32;
  batch.inputs.resize(static_cast<std::size_t>(count * view_elems()) * sizeof(float));
  batch.targets.resize(static_cast<std::size_t>(count * num_labels));
  if (num_labels > 1) batch.target_weights.resize(batch.targets.size());
  return batch;
}

std::optional<std::int32_t> ImageDataset::render_if_good(std::int64_t index,
                                                         const std::optional<ImageRandom>& random,
                                                         float* out) const {
  if (bad_.contains(index)) return std::nullopt;
  try {
    render_view(*options_.source, index, options_.view, random, out);
    return options_.source->label(index);
  } catch (const BadImage& error) {
    if (options_.on_bad_image == OnBadImage::kFail) {
      throw error.saying(fmt::format(
          "{}; remove it, or set ImageDataset::Options::on_bad_image = OnBadImage::kSkip", error.what()));
    }
    bad_.add(index, error.what());
    return std::nullopt;
  }
}

std::int32_t ImageDataset::render(std::int64_t index, const ImageRandom& random, float* out) const {
  for (std::int64_t tries = 0; tries < num_samples(); ++tries) {
    if (const auto label = render_if_good((index + tries) % num_samples(), random, out)) return *label;
  }
  throw Error(ErrorCode::kInvalidInput, "none of the {} pictures can be decoded; the first: {}",
              num_samples(), bad_.reasons().at(0));
}

std::int32_t ImageDataset::render_training_sample(std::int64_t sample, float* out) const {
  const auto epoch = static_cast<std::uint32_t>(sample / num_samples());
  const std::int64_t index = Permutation(num_samples(), options_.seed, epoch)(sample % num_samples());
  // Keyed by the drawn image, even if another one replaces it.
  const ImageRandom random(ImageRandom::Stream::kView, options_.seed, epoch,
                           static_cast<std::uint32_t>(index));
  return render(index, random, out);
}

HostBatch ImageDataset::read_train(std::int64_t first, std::int64_t count) const {
  const int num_labels = options_.mix.group_size();
  HostBatch batch = empty_batch(first, count, num_labels);
  auto* out = reinterpret_cast<float*>(batch.inputs.data());
  if (num_labels == 1) {
    for (std::int64_t row = 0; row < count; ++row, out += view_elems()) {
      batch.targets[static_cast<std::size_t>(row)] = render_training_sample(first + row, out);
    }
    return batch;
  }
  MixingGroup group(*this);
  for (std::int64_t row = 0; row < count; ++row, out += view_elems()) {
    const std::int64_t sample = first + row;
    const int own = group.enter(sample);
    const ImageRandom random(ImageRandom::Stream::kMix, options_.seed,
                             static_cast<std::uint32_t>(sample / num_samples()),
                             static_cast<std::uint32_t>(sample % num_samples()));
    const Mixture mixture = draw_mixture(options_.mix, own, options_.view.size, random);
    apply_mixture(
        mixture, options_.view.size, [&group](int member) { return group.view(member); }, out);
    for (std::size_t k = 0; k < static_cast<std::size_t>(num_labels); ++k) {
      const std::size_t at = static_cast<std::size_t>(row * num_labels) + k;
      const bool used = k < mixture.patches.size();
      batch.targets[at] = group.label(used ? mixture.patches[k].member : own);
      batch.target_weights[at] = used ? mixture.patches[k].weight : 0.0f;
    }
  }
  return batch;
}

HostBatch ImageDataset::read_sequential(std::int64_t first, std::int64_t count) const {
  TRIREME_CHECK(first + count <= num_samples(), "samples {} to {} were requested, but there are only {}",
                first, first + count - 1, num_samples());
  HostBatch batch = empty_batch(first, count, 1);
  auto* out = reinterpret_cast<float*>(batch.inputs.data());
  for (std::int64_t row = 0; row < count; ++row, out += view_elems()) {
    const auto label = render_if_good(first + row, std::nullopt, out);
    if (!label) std::fill_n(out, view_elems(), 0.0f);
    batch.targets[static_cast<std::size_t>(row)] = label.value_or(-1);
  }
  return batch;
}

}  // namespace trireme

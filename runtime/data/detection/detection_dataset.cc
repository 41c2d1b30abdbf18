#include "runtime/data/detection/detection_dataset.h"

#include <algorithm>
#include <array>
#include <optional>

#include "runtime/base/error.h"
#include "runtime/data/image_view.h"
#include "runtime/data/permutation.h"
#include "runtime/data/resample.h"

namespace trireme {
namespace {

constexpr std::size_t kBoxNumbers = 5;  // label, center x, center y, width, height

/// The largest reduction at which a picture still has `needed` times the pixels of its letterbox along a
/// side.
int reduction_for(ImageSize size, double needed) {
  int reduction = 8;
  while (reduction > 1 && std::max(size.width, size.height) < needed * reduction) reduction /= 2;
  return reduction;
}

void draw_part(const PicturePart& part, const Image& image, int side, std::span<float> out) {
  std::vector<float> pixels(static_cast<std::size_t>(part.width) * static_cast<std::size_t>(part.height) * 3);
  const double scale = 1.0 / image.reduction;
  // A reduced picture is rounded up to whole pixels; the part of the stored one lies within it.
  const ImageBox from{part.from.x * scale, part.from.y * scale, part.from.width * scale,
                      part.from.height * scale};
  resample(image, from, {part.width, part.height}, part.mirror, pixels.data());
  const auto row = static_cast<std::size_t>(part.width) * 3;
  for (int y = 0; y < part.height; ++y) {
    const auto at = (static_cast<std::size_t>(part.y + y) * static_cast<std::size_t>(side) +
                     static_cast<std::size_t>(part.x)) *
                    3;
    std::copy_n(pixels.data() + static_cast<std::size_t>(y) * row, row, out.data() + at);
  }
}

void check_options(const DetectionDataset::Options& options) {
  TRIREME_CHECK(options.set && options.set->num_pictures() > 0, "there are no pictures");
  TRIREME_CHECK(options.set->num_pictures() <= (std::int64_t{1} << 32),
                "{} pictures are too many: at most 2^32", options.set->num_pictures());
  TRIREME_CHECK(!options.sides.empty() && std::ranges::min(options.sides) > 0 && options.eval_side >= 0,
                "the sides of samples must be positive numbers of pixels");
  TRIREME_CHECK(options.sides.size() == 1 || options.samples_per_side > 0,
                "several sides need a positive number of samples per side, not {}", options.samples_per_side);
  TRIREME_CHECK(options.max_boxes >= 0, "the number of boxes of a sample cannot be {}", options.max_boxes);
  const LayoutOptions& layout = options.layout;
  for (const auto& [low, high] : {layout.scale, layout.mixup_scale}) {
    TRIREME_CHECK(low > 0 && low <= high, "the scales {} to {} of pictures are no positive range", low, high);
  }
  for (const double p : {layout.mosaic_probability, layout.mixup_probability, layout.flip_probability}) {
    TRIREME_CHECK(p >= 0 && p <= 1, "a probability must be from 0 to 1, not {}", p);
  }
  TRIREME_CHECK(layout.shift >= 0 && layout.shift <= 0.5, "the shift must be from 0 to 0.5 of a side, not {}",
                layout.shift);
}

}  // namespace

int LetterboxView::reduction(ImageSize stored) const {
  return reduction_for(stored, side);
}

void LetterboxView::draw(const Image& image, ImageSize stored, std::span<float> pixels) const {
  std::ranges::fill(pixels, kLetterboxGrey);
  draw_part(letterbox(stored, side), image, side, pixels);
  normalise_pixels(pixels, mean, stddev);
}

/// Rows of a batch.
struct DetectionDataset::Sample {
  int side = 0;
  std::span<float> pixels, boxes;
};

/// The pictures of neighbouring samples, decoded on first use.
class DetectionDataset::Group {
 public:
  Group(const DetectionDataset& data, int num_members)
      : data_(data), members_(static_cast<std::size_t>(num_members)) {}

  /// Moves to the group of `sample`, at this side; returns the sample's position in it.
  int enter(std::int64_t sample, int side) {
    const auto size = static_cast<std::int64_t>(members_.size());
    const std::int64_t first = sample - sample % size;
    if (first != first_ || side != side_) {
      for (Member& member : members_) member.image = nullptr;
      first_ = first;
      side_ = side;
    }
    return static_cast<int>(sample - first);
  }
  const LabelledPicture& labelled(int member) const { return data_.options_.set->picture(index(member)); }
  /// The stored size, and the pixels. The reduction depends on the picture and the options alone, so that a
  /// picture is the same for all samples of a group.
  ImageSize size(int member) {
    const ImageSize stated = labelled(member).size;  // load() compares
    return stated.num_pixels() > 0 ? stated : loaded(member).size;
  }
  const Image& image(int member) { return *loaded(member).image; }

 private:
  struct Member {
    std::shared_ptr<const Image> image;
    ImageSize size;
  };
  std::int64_t index(int member) const { return data_.picture_of(first_ + member); }
  Member& loaded(int at) {
    Member& member = members_[static_cast<std::size_t>(at)];
    if (!member.image) {
      const double needed = side_ * data_.options_.layout.max_scale();
      member.image = data_.options_.set->load(index(at), [&](ImageSize size) {
        member.size = size;
        return reduction_for(size, needed);
      });
    }
    return member;
  }

  const DetectionDataset& data_;
  std::int64_t first_ = -1;
  int side_ = 0;
  std::vector<Member> members_;
};

DetectionDataset::DetectionDataset(const Options& options) : options_(options) {
  check_options(options);
  if (options_.eval_side == 0) options_.eval_side = std::ranges::max(options_.sides);
  if (options_.max_boxes == 0) options_.max_boxes = possible_boxes();
}

/// The sum of the most objects that the pictures of a sample can have.
int DetectionDataset::possible_boxes() const {
  std::size_t most = 1;
  for (std::int64_t i = 0; i < num_samples(); ++i)
    most = std::max(most, options_.set->picture(i).boxes.size());
  const int num_pictures =
      (options_.layout.mosaic_probability > 0 ? 4 : 1) + (options_.layout.mixup_probability > 0 ? 1 : 0);
  return static_cast<int>(most) * num_pictures;
}

std::int64_t DetectionDataset::picture_of(std::int64_t sample) const {
  const auto epoch = static_cast<std::uint32_t>(sample / num_samples());
  return Permutation(num_samples(), options_.seed, epoch)(sample % num_samples());
}

int DetectionDataset::train_side(std::int64_t sample) const {
  if (options_.sides.size() == 1) return options_.sides[0];
  const auto period = static_cast<std::uint64_t>(sample / options_.samples_per_side);
  ImageRandom random(ImageRandom::Stream::kSide, options_.seed, static_cast<std::uint32_t>(period >> 32),
                     static_cast<std::uint32_t>(period));
  return options_.sides[static_cast<std::size_t>(random.below(static_cast<int>(options_.sides.size())))];
}

HostBatch DetectionDataset::empty_batch(std::int64_t first, std::int64_t count, int side) const {
  TRIREME_CHECK(first >= 0 && count >= 0, "cannot read {} samples from sample {}", count, first);
  HostBatch batch;
  batch.input_shape = {count, side, side, 3};
  batch.target_shape = {count, options_.max_boxes, static_cast<std::int64_t>(kBoxNumbers)};
  batch.input_dtype = DType::kFloat32;
  batch.target_dtype = DType::kFloat32;
  batch.inputs.resize(static_cast<std::size_t>(batch.input_shape.num_elems()) * sizeof(float));
  batch.number_targets.resize(static_cast<std::size_t>(batch.target_shape.num_elems()));
  batch.target_weights.resize(static_cast<std::size_t>(count));
  return batch;
}

void DetectionDataset::write_boxes(std::vector<SampleBox> boxes, std::span<float> out) const {
  const std::size_t room = out.size() / kBoxNumbers;
  if (boxes.size() > room) {
    std::ranges::stable_sort(boxes, std::ranges::greater(),
                             [](const SampleBox& box) { return box.box.width * box.box.height; });
    boxes.resize(room);
  }
  for (std::size_t i = 0; i < room; ++i) {
    const std::span<float> row = out.subspan(i * kBoxNumbers, kBoxNumbers);
    std::ranges::fill(row, 0.0f);
    row[0] = -1;
    if (i >= boxes.size()) continue;
    const ImageBox& box = boxes[i].box;
    row[0] = static_cast<float>(boxes[i].label);
    row[1] = static_cast<float>(box.x + box.width / 2);
    row[2] = static_cast<float>(box.y + box.height / 2);
    row[3] = static_cast<float>(box.width);
    row[4] = static_cast<float>(box.height);
  }
}

void DetectionDataset::write_train(std::int64_t sample, Group& group, const Sample& out) const {
  ImageRandom random(ImageRandom::Stream::kMix, options_.seed,
                     static_cast<std::uint32_t>(sample / num_samples()),
                     static_cast<std::uint32_t>(sample % num_samples()));
  LayoutOptions layout_options = options_.layout;
  const bool is_mixed_sample = options_.mix_until < 0 || sample < options_.mix_until;
  if (!is_mixed_sample) layout_options.mosaic_probability = layout_options.mixup_probability = 0;
  const int own = group.enter(sample, out.side);
  std::vector<ImageSize> sizes(static_cast<std::size_t>(is_mixed() ? kGroupSize : 1));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool is_used = is_mixed_sample || static_cast<int>(i) == own;
    if (is_used) sizes[i] = group.size(static_cast<int>(i));
  }
  const PictureLayout layout = draw_layout(layout_options, sizes, own, out.side, random);
  std::vector<SampleBox> boxes;
  std::vector<float> mixed(layout.layers.size() > 1 ? out.pixels.size() : 0);
  for (std::size_t layer = 0; layer < layout.layers.size(); ++layer) {
    const std::span<float> pixels = layer == 0 ? out.pixels : std::span<float>(mixed);
    std::ranges::fill(pixels, kLetterboxGrey);
    for (const PicturePart& part : layout.layers[layer]) {
      draw_part(part, group.image(part.member), out.side, pixels);
      add_visible_boxes(part, group.size(part.member), group.labelled(part.member).boxes, options_.keep,
                        boxes);
    }
  }
  for (std::size_t i = 0; i < mixed.size(); ++i) out.pixels[i] = 0.5f * (out.pixels[i] + mixed[i]);
  jitter_colors(options_.jitter, random, out.pixels);
  normalise_pixels(out.pixels, options_.mean, options_.stddev);
  write_boxes(std::move(boxes), out.boxes);
}

HostBatch DetectionDataset::read_train(std::int64_t first, std::int64_t count) const {
  const int side = train_side(first);
  TRIREME_CHECK(count == 0 || train_side(first + count - 1) == side,
                "samples {} to {} have two sides: samples_per_side = {} must be a multiple of the batch",
                first, first + count - 1, options_.samples_per_side);
  HostBatch batch = empty_batch(first, count, side);
  const std::span<float> pixels(reinterpret_cast<float*>(batch.inputs.data()),
                                batch.inputs.size() / sizeof(float));
  const std::span<float> boxes(batch.number_targets);
  Group group(*this, is_mixed() ? kGroupSize : 1);
  for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
    const std::size_t num_pixels = pixels.size() / static_cast<std::size_t>(count);
    const std::size_t num_boxes = boxes.size() / static_cast<std::size_t>(count);
    const bool is_plain =
        options_.mix_until >= 0 && first + static_cast<std::int64_t>(row) >= options_.mix_until;
    batch.target_weights[row] = is_plain ? 1.0f : 0.0f;
    write_train(first + static_cast<std::int64_t>(row), group,
                {.side = side,
                 .pixels = pixels.subspan(row * num_pixels, num_pixels),
                 .boxes = boxes.subspan(row * num_boxes, num_boxes)});
  }
  return batch;
}

HostBatch DetectionDataset::read_sequential(std::int64_t first, std::int64_t count) const {
  TRIREME_CHECK(first + count <= num_samples(), "samples {} to {} were requested, but there are only {}",
                first, first + count - 1, num_samples());
  const int side = options_.eval_side;
  const LetterboxView view{.side = side, .mean = options_.mean, .stddev = options_.stddev};
  HostBatch batch = empty_batch(first, count, side);
  auto* const pixels = reinterpret_cast<float*>(batch.inputs.data());
  const auto num_pixels = static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * 3;
  const std::size_t num_boxes = static_cast<std::size_t>(options_.max_boxes) * kBoxNumbers;
  for (std::int64_t row = 0; row < count; ++row) {
    ImageSize size;
    const auto image = options_.set->load(first + row, [&](ImageSize stored) {
      size = stored;
      return view.reduction(stored);
    });
    view.draw(*image, size, {pixels + static_cast<std::size_t>(row) * num_pixels, num_pixels});
    std::vector<SampleBox> boxes;
    add_visible_boxes(letterbox(size, side), size, options_.set->picture(first + row).boxes,
                      {.min_side = 0, .min_visible = 0}, boxes);
    write_boxes(
        std::move(boxes),
        std::span(batch.number_targets).subspan(static_cast<std::size_t>(row) * num_boxes, num_boxes));
  }
  return batch;
}

}  // namespace trireme

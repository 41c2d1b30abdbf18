#include "runtime/data/detection/synthetic_detections.h"

#include <algorithm>
#include <array>
#include <span>

#include "runtime/base/error.h"
#include "runtime/data/image_random.h"

namespace trireme {
namespace {

// Epoch numbers of the random stream, one per kind of draw.
constexpr std::uint32_t kColours = 16, kTrainObjects = 17, kEvalObjects = 18;
constexpr int kMostObjects = 4;
constexpr std::int64_t kRowNumbers = 5;  // label, center x, center y, width, height

/// A picture [side, side, 3].
struct Canvas {
  std::span<float> pixels;
  std::int64_t side = 0;
};

void fill_rectangle(const Canvas& canvas, std::int64_t left, std::int64_t top, std::int64_t width,
                    std::int64_t height, const std::array<float, 3>& colour) {
  for (std::int64_t y = top; y < top + height; ++y) {
    float* out = canvas.pixels.data() + (y * canvas.side + left) * 3;
    for (std::int64_t i = 0; i < width * 3; ++i) out[i] += colour[static_cast<std::size_t>(i % 3)];
  }
}

std::array<float, 3> colour_of(std::uint64_t seed, std::int32_t label) {
  ImageRandom random(ImageRandom::Stream::kSynthetic, seed, kColours, static_cast<std::uint32_t>(label));
  std::array<float, 3> colour;
  for (float& channel : colour) channel = static_cast<float>(random.uniform(-2, 2));
  return colour;
}

}  // namespace

SyntheticDetections::SyntheticDetections(const Options& options)
    : SyntheticDataset(options.num_samples), options_(options) {
  TRIREME_CHECK(options.side > 0 && options.num_classes > 0 && options.max_boxes > 0,
                "synthetic pictures need positive numbers of pixels, classes and boxes, got {}, {} and {}",
                options.side, options.num_classes, options.max_boxes);
}

HostBatch SyntheticDetections::make(std::int64_t first, std::int64_t count, Set set) const {
  const std::int64_t side = options_.side, elems = side * side * 3;
  HostBatch batch;
  batch.input_shape = {count, side, side, 3};
  batch.target_shape = {count, options_.max_boxes, kRowNumbers};
  batch.input_dtype = batch.target_dtype = DType::kFloat32;
  batch.inputs.resize(static_cast<std::size_t>(count * elems) * sizeof(float));
  batch.target_weights.resize(static_cast<std::size_t>(count));
  auto* pixels = reinterpret_cast<float*>(batch.inputs.data());
  for (std::int64_t sample = first; sample < first + count; ++sample, pixels += elems) {
    ImageRandom random(ImageRandom::Stream::kSynthetic, options_.seed,
                       set == Set::kTrain ? kTrainObjects : kEvalObjects, static_cast<std::uint32_t>(sample));
    const Canvas canvas{{pixels, static_cast<std::size_t>(elems)}, side};
    for (float& pixel : canvas.pixels) pixel = static_cast<float>(random.uniform(-0.5, 0.5));
    const std::int64_t objects = std::min<std::int64_t>(1 + random.below(kMostObjects), options_.max_boxes);
    for (std::int64_t row = 0; row < options_.max_boxes; ++row) {
      if (row >= objects) {
        batch.number_targets.insert(batch.number_targets.end(), {-1, 0, 0, 0, 0});
        continue;
      }
      const std::int32_t label = random.below(static_cast<int>(options_.num_classes));
      const auto draw_side = [&] { return std::max<std::int64_t>(side * (10 + random.below(40)) / 100, 1); };
      const std::int64_t width = draw_side(), height = draw_side();
      const std::int64_t left = random.below(static_cast<int>(side - width + 1)),
                         top = random.below(static_cast<int>(side - height + 1));
      fill_rectangle(canvas, left, top, width, height, colour_of(options_.seed, label));
      const auto x = static_cast<float>(left), y = static_cast<float>(top), w = static_cast<float>(width),
                 h = static_cast<float>(height);
      batch.number_targets.insert(batch.number_targets.end(),
                                  {static_cast<float>(label), x + w / 2, y + h / 2, w, h});
    }
  }
  return batch;
}

}  // namespace trireme

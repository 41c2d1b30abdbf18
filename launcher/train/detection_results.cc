#include "launcher/train/detection_results.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "models/yolox_loss.h"
#include "runtime/base/error.h"
#include "runtime/data/detection/non_maximum_suppression.h"
#include "runtime/data/detection/picture_layout.h"

namespace trireme {
namespace {

constexpr std::int64_t kBoxNumbers = 5;  // before the classes in a row of predictions

ImageBox within(const ImageBox& box, ImageSize size) {
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  const double left = std::clamp(box.x, 0.0, width), top = std::clamp(box.y, 0.0, height);
  return {left, top, std::clamp(box.x + box.width, 0.0, width) - left,
          std::clamp(box.y + box.height, 0.0, height) - top};
}

}  // namespace

std::vector<Detection> picture_detections(std::span<const float> rows, std::int64_t classes, int side,
                                          ImageSize picture, double min_score) {
  std::vector<Detection> found =
      suppress_non_maxima(yolox_detections(rows, {side, side, classes}, min_score), {.min_score = min_score});
  const PicturePart part = letterbox(picture, side);
  for (Detection& detection : found) detection.box = within(part.to_picture(detection.box), picture);
  std::erase_if(found, [](const Detection& d) { return d.box.width <= 0 || d.box.height <= 0; });
  return found;
}

DetectionResults::DetectionResults(std::shared_ptr<const DetectionSet> set, std::int64_t num_pictures)
    : set_(std::move(set)), num_pictures_(num_pictures) {
  TRIREME_CHECK(num_pictures > 0 && num_pictures <= set_->num_pictures(),
                "an evaluation of {} pictures, of which there are {}", num_pictures, set_->num_pictures());
}

void DetectionResults::add(const Context& ctx, const Tensor& predictions, const Batch& batch,
                           std::int64_t first) {
  const std::vector<float> values = ctx.to_host(predictions);
  const std::int64_t classes = predictions.shape().dim(-1) - kBoxNumbers, count = predictions.shape().dim(0);
  const int side = static_cast<int>(batch.inputs.shape().dim(1));
  const std::size_t elems = values.size() / static_cast<std::size_t>(count);
  for (std::int64_t row = 0; row < count; ++row) {
    const auto rows = std::span(values).subspan(static_cast<std::size_t>(row) * elems, elems);
    for (const Detection& detection :
         picture_detections(rows, classes, side, set_->size(first + row), kMinEvaluationScore)) {
      found_.push_back({first + row, detection});
    }
  }
}

void DetectionResults::gather(Communicator& comm) {
  static_assert(std::is_trivially_copyable_v<Found>);
  // Ranks have different numbers, and an exchange has the same size on each.
  const auto counts = comm.all_gather_value(static_cast<std::uint64_t>(found_.size()));
  if (std::ranges::max(counts) == 0) return;
  found_.resize(std::ranges::max(counts));
  const std::vector<Found> all = comm.all_gather_values(std::span<const Found>(found_));
  std::vector<Found> found;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const auto own = std::span(all).subspan(rank * found_.size(), counts[rank]);
    found.insert(found.end(), own.begin(), own.end());
  }
  std::ranges::stable_sort(found, {}, &Found::picture);
  found_ = std::move(found);
}

DetectionScores DetectionResults::scores() const {
  AveragePrecision average(static_cast<std::int32_t>(set_->class_names().size()));
  auto next = found_.begin();
  for (std::int64_t picture = 0; picture < num_pictures_; ++picture) {
    std::vector<Detection> own;
    for (; next != found_.end() && next->picture == picture; ++next) own.push_back(next->detection);
    average.add(set_->picture(picture).boxes, own);
  }
  return average.scores();
}

nlohmann::ordered_json DetectionResults::to_json() const {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& [picture, detection] : found_) {
    const ImageBox& box = detection.box;
    json.push_back({{"image_id", set_->picture(picture).id},
                    {"category_id", set_->category_ids().at(static_cast<std::size_t>(detection.label))},
                    {"bbox", {box.x, box.y, box.width, box.height}},
                    {"score", detection.score}});
  }
  return json;
}

}  // namespace trireme

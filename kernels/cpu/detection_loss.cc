// Assignment of anchors to objects and the loss of a detector: one picture after the other on each thread.
#include <cassert>
#include <limits>
#include <span>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"
#include "kernels/detection_numerics.h"
#include "runtime/base/error.h"

namespace trireme::cpu {
namespace {

constexpr std::int32_t kNoObject = -1, kSeveralObjects = -2;
constexpr std::int64_t kNumbers = 5;  // of a row of targets; and of a prediction, before its classes

/// One picture of a call.
class DetectedPicture {
 public:
  /// `background` [A] is scratch.
  DetectedPicture(const DetectionLossArgs& args, std::int64_t index, std::span<double> background)
      : args_(args),
        anchors_(args.predictions.shape[1]),
        width_(args.predictions.shape[2]),
        first_row_(index * anchors_),
        targets_(args.targets.as<float>() + index * args.targets.num_elems() / args.predictions.shape[0],
                 static_cast<std::size_t>(args.targets.num_elems() / args.predictions.shape[0])),
        l1_weight_(args.l1_weights.defined() ? args.l1_weights.as<float>()[index] : 0.0f),
        objects_(args.objects.as<std::int32_t>() + first_row_),
        parts_(args.parts.as<float>() + index * kNumDetectionParts),
        background_(background) {}

  void assign() {
    for (std::int64_t a = 0; a < anchors_; ++a) {
      objects_[a] = kNoObject;
      background_[static_cast<std::size_t>(a)] = background_of(a);
    }
    for (std::int32_t g = 0; g < num_rows(); ++g) {
      if (is_object(g)) take_best(g);
    }
    for (std::int64_t a = 0; a < anchors_; ++a) {
      if (objects_[a] == kSeveralObjects) objects_[a] = best_object(a);
    }
  }

  void add_losses() {
    double parts[kNumDetectionParts] = {};
    float row[kBuffer];
    for (std::int64_t a = 0; a < anchors_; ++a) {
      const float* numbers = read(args_.predictions, (first_row_ + a) * width_, width_, row);
      float* gradient = place(args_.predictions, (first_row_ + a) * width_, row);
      add_loss(a, numbers, args_.write_gradient ? gradient : nullptr, parts);
      if (args_.write_gradient) write(args_.predictions, (first_row_ + a) * width_, width_, gradient);
    }
    for (std::int64_t i = 0; i < kNumDetectionParts; ++i) parts_[i] = static_cast<float>(parts[i]);
  }

 private:
  std::int32_t num_rows() const { return static_cast<std::int32_t>(targets_.size() / kNumbers); }
  const float* object(std::int32_t g) const { return targets_.data() + g * kNumbers; }
  bool is_object(std::int32_t g) const { return object(g)[0] >= 0; }
  static std::int64_t class_of(const float* object) { return static_cast<std::int64_t>(object[0]); }

  /// The sum of ClassCost::absent over the classes; NaN if the anchor is no candidate.
  double background_of(std::int64_t a) const {
    constexpr double kNoCandidate = std::numeric_limits<double>::quiet_NaN();
    const detection::Anchor anchor = detection::anchor_at(args_.grid, a);
    bool is_candidate = false;
    for (std::int32_t g = 0; g < num_rows() && !is_candidate; ++g) {
      if (!is_object(g)) continue;
      const detection::Position at = detection::position(anchor, detection::object_box(object(g)));
      is_candidate = at.in_box || at.near_center;
    }
    if (!is_candidate) return kNoCandidate;
    float buffer[kBuffer];
    const float* row = read(args_.predictions, (first_row_ + a) * width_, width_, buffer);
    double sum = 0;
    for (std::int64_t i = 0; i < width_; ++i) {
      if (std::isnan(row[i])) return kNoCandidate;
      if (i >= kNumbers) sum += detection::class_cost(row[4], row[i]).absent;
    }
    return sum;
  }

  detection::Candidate candidate(std::int64_t a, std::int32_t g) const {
    float numbers[kNumbers], logit[1];
    const std::int64_t first = (first_row_ + a) * width_;
    const float* prediction = read(args_.predictions, first, kNumbers, numbers);
    const float own = *read(args_.predictions, first + kNumbers + class_of(object(g)), 1, logit);
    const detection::Anchor anchor = detection::anchor_at(args_.grid, a);
    return detection::candidate(anchor, detection::predicted_box(anchor, prediction),
                                detection::object_box(object(g)), background_[static_cast<std::size_t>(a)],
                                detection::class_cost(prediction[4], own));
  }

  void take_best(std::int32_t g) {
    detection::BestAnchors best;
    for (std::int64_t a = 0; a < anchors_; ++a) {
      if (!std::isnan(background_[static_cast<std::size_t>(a)])) {
        best.add(candidate(a, g), static_cast<std::int32_t>(a));
      }
    }
    for (int i = 0; i < best.num_taken(); ++i) {
      std::int32_t& taken = objects_[best.anchors[i]];
      taken = taken == kNoObject ? g : kSeveralObjects;
    }
  }

  std::int32_t best_object(std::int64_t a) const {
    std::int32_t best = kNoObject;
    double lowest = 0;
    for (std::int32_t g = 0; g < num_rows(); ++g) {
      if (!is_object(g)) continue;
      const double cost = candidate(a, g).cost;
      if (best == kNoObject || cost < lowest) {
        best = g;
        lowest = cost;
      }
    }
    return best;
  }

  /// `gradient` may be `row`; null: none.
  void add_loss(std::int64_t a, const float* row, float* gradient, double* parts) const {
    const double scale =
        static_cast<double>(args_.inv_num_targets) *
        (args_.gradient_scale.defined() ? static_cast<double>(*args_.gradient_scale.as<float>()) : 1.0);
    const std::int32_t g = objects_[a];
    const bool is_foreground = g >= 0;
    bool has_nan = false;
    for (std::int64_t i = 0; i < width_; ++i) has_nan = has_nan || std::isnan(row[i]);
    const double logit = has_nan ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(row[4]);
    detection::BoxLoss box{};
    if (is_foreground) {
      box = detection::box_loss(detection::anchor_at(args_.grid, a), row, detection::object_box(object(g)),
                                l1_weight_);
      parts[0] += box.box;
      parts[3] += box.l1;
      parts[4] += 1;
    }
    parts[1] += detection::softplus(is_foreground ? -logit : logit);
    for (std::int64_t i = kNumbers; i < width_; ++i) {
      double slope = 0;
      if (is_foreground) {
        const double target = i - kNumbers == class_of(object(g)) ? box.overlap : 0.0;
        parts[2] += detection::softplus(row[i]) - target * static_cast<double>(row[i]);
        slope = detection::sigmoid(row[i]) - target;
      }
      if (gradient != nullptr) gradient[i] = static_cast<float>(slope * scale);
    }
    if (gradient == nullptr) return;
    for (int i = 0; i < 4; ++i) {
      gradient[i] = static_cast<float>((box.box_gradient[i] + box.l1_gradient[i]) * scale);
    }
    gradient[4] = static_cast<float>((detection::sigmoid(logit) - (is_foreground ? 1.0 : 0.0)) * scale);
  }

  const DetectionLossArgs& args_;
  const std::int64_t anchors_, width_, first_row_;
  const std::span<const float> targets_;
  const double l1_weight_;
  std::int32_t* const objects_;
  float* const parts_;
  const std::span<double> background_;
};

void check_classes(const DetectionLossArgs& args) {
  const auto classes = static_cast<float>(args.predictions.shape[2] - kNumbers);
  for (std::int64_t i = 0; i < args.targets.num_elems(); i += kNumbers) {
    const float label = args.targets.as<float>()[i];
    if (label < classes) continue;
    throw Error(ErrorCode::kInvalidInput,
                "detection_loss: row {} of the targets has class {}, but there are {} classes", i / kNumbers,
                label, classes);
  }
}

}  // namespace

void run_op(const KernelContext& exec, const DetectionLossArgs& args) {
  check_one_float_type("detection_loss", {args.predictions});
  check_fp32("detection_loss", {args.targets, args.l1_weights, args.parts, args.loss, args.count});
  check_classes(args);
  const std::int64_t pictures = args.predictions.shape[0], anchors = args.predictions.shape[1];
  assert(args.predictions.shape[2] <= kBuffer && args.objects.num_elems() == pictures * anchors);
  const Workspace background(exec, std::max<std::int64_t>(1, 2 * pictures * anchors));
  auto* const scratch = reinterpret_cast<double*>(background.data());
  for_each_piece(exec, pictures, args.predictions.num_elems(), [&](std::int64_t index) {
    DetectedPicture picture(args, index, {scratch + index * anchors, static_cast<std::size_t>(anchors)});
    picture.assign();
    picture.add_losses();
  });
  double loss = 0, count = 0;
  for (std::int64_t b = 0; b < pictures; ++b) {
    const float* const parts = args.parts.as<float>() + b * kNumDetectionParts;
    for (int i = 0; i < 4; ++i) loss += static_cast<double>(parts[i]);
    count += static_cast<double>(parts[4]);
  }
  *args.loss.as<float>() = static_cast<float>(loss * static_cast<double>(args.inv_num_targets));
  *args.count.as<float>() = static_cast<float>(count);
}

}  // namespace trireme::cpu

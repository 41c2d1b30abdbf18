// YOLOX: detectors of objects.
#include "models/yolox_loss.h"

#include "launcher/data/detection_data.h"
#include "launcher/families/model_family.h"
#include "runtime/base/error.h"
#include "runtime/ops/detection_loss.h"

namespace trireme {
namespace {

constexpr std::string_view kNames[] = {"yolox"};
constexpr std::string_view kKeys[] = {"size", "classes", "new_head"};
constexpr std::int64_t kCocoClasses = 80;

YoloxConfig yolox_config(const ModelSection& model) {
  YoloxConfig config = yolox_config_for_size(model.size);
  config.classes = model.classes;
  return config;
}

void fill_in_detector(JobConfig& config) {
  std::int64_t &classes = config.model.classes, &side = config.data.image_size;
  if (classes == 0) {
    classes = config.data.kind == DataKind::kDetection ? count_detection_classes(config) : kCocoClasses;
  }
  TRIREME_CHECK(classes <= ops::kMaxDetectionClasses, "model.classes = {}: a detector has at most {} classes",
                classes, ops::kMaxDetectionClasses);
  // The authors train the small ones for devices.
  if (side == 0) side = config.model.size == "nano" || config.model.size == "tiny" ? 416 : 640;
  check_detection_keys(config, kYoloxStrides.back());
}

std::string describe_detector(const JobConfig& config) {
  return fmt::format("size {}, {} classes, images of {} x {}", config.model.size, config.model.classes,
                     config.data.image_size, config.data.image_size);
}

}  // namespace

extern constexpr ModelFamily kYoloxFamily{
    .plural = "YOLOX",
    .names = kNames,
    .sizes = kYoloxSizes,
    .keys = kKeys,
    .data = kDetectionData,
    .class_head = "head.cls_preds.",
    .detects = true,
    .tensor_obstacle = "convolutions are not cut into tensor chunks",
    .check =
        [](const ModelSection& model) {
          TRIREME_CHECK(!model.size.empty(), "the model has no shape: give model.size");
        },
    .fill_in = fill_in_detector,
    .build = [](const ModelSection& model) { return build_yolox_detector(yolox_config(model)); },
    .describe = describe_detector,
    .variant = [](const ModelSection&) { return std::string(); }};

}  // namespace trireme

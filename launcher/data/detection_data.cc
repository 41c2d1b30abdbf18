#include "launcher/data/detection_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/data/class_names.h"
#include "runtime/data/detection/detection_dataset.h"
#include "runtime/data/detection/synthetic_detections.h"

namespace trireme {
namespace {

constexpr std::int64_t kSyntheticPictures = 1024;  // per pass

std::vector<int> training_sides(const DataSection& data) {
  if (data.multi_scale.empty()) return {static_cast<int>(data.image_size)};
  return {data.multi_scale.begin(), data.multi_scale.end()};
}

DetectionDataset::Options dataset_options(const JobConfig& config, std::shared_ptr<const DetectionSet> set) {
  const DataSection& data = config.data;
  const std::int64_t batch = config.train.global_batch;
  DetectionDataset::Options options;
  options.set = std::move(set);
  options.sides = training_sides(data);
  options.samples_per_side = data.multi_scale_steps * batch;
  options.eval_side = static_cast<int>(data.image_size);
  options.layout = {.mosaic_probability = data.mosaic,
                    .mixup_probability = data.mixup,
                    .scale = data.scale,
                    .mixup_scale = data.mixup_scale,
                    .shift = data.shift,
                    .flip_probability = data.flip ? 0.5 : 0.0};
  options.mix_until = std::max<std::int64_t>(config.train.steps - data.mosaic_off_steps, 0) * batch;
  options.jitter = {.hue = data.hsv[0], .saturation = data.hsv[1], .value = data.hsv[2]};
  options.mean = data.mean;
  options.stddev = data.stddev;
  options.max_boxes = static_cast<int>(data.max_boxes);
  options.seed = static_cast<std::uint64_t>(config.train.seed);
  return options;
}

/// data.train or data.eval.
struct DetectionPlace {
  const char* key;
  const char* annotations_key;
  const std::string& folder;
  const std::string& annotations;
};

DetectionPlace train_place(const DataSection& data) {
  return {"data.train", "data.train_annotations", data.train, data.train_annotations};
}

DetectionPlace eval_place(const DataSection& data) {
  return {"data.eval", "data.eval_annotations", data.eval, data.eval_annotations};
}

/// Runs `open`; an error's message begins with the key.
template <class Open>
auto naming_place(const DetectionPlace& place, const Open& open) {
  try {
    return open();
  } catch (const Error& error) {
    if (!place.annotations.empty())
      throw error.saying(fmt::format("{}: {}", place.annotations_key, error.what()));
    std::error_code failure;
    const bool has_texts =
        std::filesystem::exists(std::filesystem::path(place.folder) / "classes.txt", failure);
    throw error.saying(fmt::format(
        "{}: {}{}", place.key, error.what(),
        has_texts ? "" : fmt::format("; COCO's annotations would be named in {}", place.annotations_key)));
  }
}

/// Also reads the headers of all pictures if `read_whole`.
std::shared_ptr<DetectionSet> open_set(const JobConfig& config, const DetectionPlace& place,
                                       bool read_whole) {
  std::error_code failure;
  TRIREME_CHECK(std::filesystem::is_directory(place.folder, failure), "{}: {} is not a folder of pictures",
                place.key, place.folder);
  return naming_place(place, [&] {
    auto set = std::make_shared<DetectionSet>(DetectionSet::Options{
        .pictures = place.folder, .annotations = place.annotations, .max_pixels = config.data.max_pixels});
    TRIREME_CHECK(set->num_pictures() > 0, "there are no pictures");
    const std::int64_t classes = std::ssize(set->class_names());
    TRIREME_CHECK(classes == config.model.classes,
                  "it has {} classes, and model.classes = {}: use annotations with the same classes, or "
                  "leave model.classes out and train a new head (model.new_head = true)",
                  classes, config.model.classes);
    if (read_whole) set->check_sizes();
    return set;
  });
}

std::shared_ptr<const Dataset> synthetic_pictures(const JobConfig& config) {
  return std::make_shared<SyntheticDetections>(
      SyntheticDetections::Options{.num_samples = kSyntheticPictures,
                                   .side = config.data.image_size,
                                   .num_classes = config.model.classes,
                                   .max_boxes = config.data.max_boxes,
                                   .seed = static_cast<std::uint64_t>(config.train.seed)});
}

void open_eval_set(const JobConfig& config, bool read_whole, JobData& data) {
  data.eval_set = open_set(config, eval_place(config.data), read_whole);
  data.eval_classes = as_utf8(data.eval_set->class_names());
  data.eval = std::make_shared<DetectionDataset>(dataset_options(config, data.eval_set));
  if (read_whole) data.eval_fingerprint = data.eval_set->fingerprint();
}

JobData open_detection_eval(const JobConfig& config, bool read_whole) {
  if (config.data.kind == DataKind::kSynthetic) return {.eval = synthetic_pictures(config)};
  JobData data;
  open_eval_set(config, read_whole, data);
  return data;
}

/// Throws for a set without objects. Warns of values of [data] that leave out what the annotations or other
/// values ask for.
void check_objects(const JobConfig& config, const DetectionSet& set) {
  const DataSection& data = config.data;
  std::int64_t num_full = 0, most = 0;
  for (std::int64_t i = 0; i < set.num_pictures(); ++i) {
    const auto objects = std::ranges::count(set.picture(i).boxes, false, &LabelledBox::is_crowd);
    num_full += objects > data.max_boxes ? 1 : 0;
    most = std::max<std::int64_t>(most, objects);
  }
  const DetectionPlace place = train_place(data);
  TRIREME_CHECK(
      most > 0,
      "{}: none of its {} picture(s) has an object that is not a crowd: there is nothing to learn; add "
      "annotations",
      place.annotations.empty() ? place.key : place.annotations_key, set.num_pictures());
  if (num_full > 0) {
    log_warning(fmt::format(
        "data.max_boxes = {}: {} picture(s) have more objects, up to {}; the loss of a sample has "
        "the largest ones only",
        data.max_boxes, num_full, most));
  }
  if ((data.mosaic > 0 || data.mixup > 0) && data.mosaic_off_steps >= config.train.steps) {
    log_warning(fmt::format(
        "data.mosaic_off_steps = {} covers all {} steps: data.mosaic and data.mixup have no effect",
        data.mosaic_off_steps, config.train.steps));
  }
}

JobData open_detection(const JobConfig& config, bool read_whole) {
  if (config.data.kind == DataKind::kSynthetic) {
    const auto data = synthetic_pictures(config);
    return {.train = data, .eval = config.data.eval.empty() ? nullptr : data};
  }
  JobData data;
  data.train_set = open_set(config, train_place(config.data), read_whole);
  data.train_classes = as_utf8(data.train_set->class_names());
  check_objects(config, *data.train_set);
  data.train = std::make_shared<DetectionDataset>(dataset_options(config, data.train_set));
  if (read_whole) data.train_fingerprint = data.train_set->fingerprint();
  if (!config.data.eval.empty()) open_eval_set(config, read_whole, data);
  return data;
}

SampleSpec detection_sample_spec(const JobConfig& config) {
  std::int64_t side = config.data.image_size;
  if (config.data.kind != DataKind::kSynthetic) {
    for (const std::int64_t other : config.data.multi_scale) side = std::max(side, other);
  }
  return {.input = {side, side, 3},
          .input_dtype = DType::kFloat32,
          .target = {config.data.max_boxes, 5},
          .target_dtype = DType::kFloat32,
          .target_weights = true};
}

}  // namespace

std::int64_t count_detection_classes(const JobConfig& config) {
  const DetectionPlace place = train_place(config.data);
  return naming_place(place, [&] {
    return std::ssize(detection_class_names({.pictures = place.folder, .annotations = place.annotations}));
  });
}

void check_detection_keys(const JobConfig& config, std::int64_t coarsest_stride) {
  const DataSection& data = config.data;
  const auto check_side = [&](const char* key, std::int64_t side) {
    TRIREME_CHECK(side % coarsest_stride == 0,
                  "{} = {} is not a multiple of {}, the stride of the coarsest feature map: {} is", key, side,
                  coarsest_stride, (side / coarsest_stride + 1) * coarsest_stride);
  };
  check_side("data.image_size", data.image_size);
  for (const std::int64_t side : data.multi_scale) check_side("data.multi_scale", side);
  for (const auto& [key, range] : {std::pair{"scale", data.scale}, {"mixup_scale", data.mixup_scale}}) {
    TRIREME_CHECK(range[0] <= range[1], "data.{} = [{}, {}]: the least comes first", key, range[0], range[1]);
  }
  TRIREME_CHECK(data.mixup <= 1, "data.mixup = {} is a probability for detectors: from 0 to 1", data.mixup);
  TRIREME_CHECK(data.eval_annotations.empty() || !data.eval.empty(),
                "data.eval_annotations = \"{}\" needs data.eval, the folder of its pictures",
                data.eval_annotations);
  const bool varies = data.kind != DataKind::kSynthetic && data.multi_scale.size() > 1;
  TRIREME_CHECK(!varies || config.parallel.layout.pipeline == 1,
                "data.multi_scale changes the sizes of activations, and parallel.pipeline = {} exchanges "
                "those of one size: leave out data.multi_scale, or use one stage",
                config.parallel.layout.pipeline);
  TRIREME_CHECK(!varies || !config.parallel.cuda_graph,
                "data.multi_scale changes the sizes of activations, and parallel.cuda_graph replays a step "
                "as it was recorded: leave out one of the two");
}

const DataModule kDetectionData{
    .kind = DataKind::kDetection,
    .source =
        "a folder of pictures, with COCO's annotations in data.train_annotations or a text file of "
        "boxes beside each picture",
    .throughput_unit = "samples",
    .max_auto_workers = 16,
    .sample_spec = detection_sample_spec,
    .describe_sample =
        [](const JobConfig& config) { return fmt::format("{0} x {0} pixels", config.data.image_size); },
    .open = open_detection,
    .open_eval = open_detection_eval};

}  // namespace trireme

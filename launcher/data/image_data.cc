#include "launcher/data/image_data.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/data/image_dataset.h"
#include "runtime/data/open_images.h"
#include "runtime/data/synthetic_images.h"

namespace trireme {
namespace {

constexpr std::int64_t kSyntheticSamples = 1024;  // per pass

MixOptions mix_options(const DataSection& data) {
  return {.mixup_alpha = data.mixup, .mosaic_probability = data.mosaic};
}

ViewOptions view_options(const DataSection& data) {
  return {.size = static_cast<int>(data.image_size),
          .crop = data.crop,
          .center = data.center,
          .padding = static_cast<int>(data.padding),
          .area = data.crop_area,
          .aspect = data.crop_aspect,
          .flip = data.flip,
          .mean = data.mean,
          .stddev = data.stddev};
}

/// Runs `open`; an error's message is prefixed with the key.
template <class Open>
auto with_key(const char* key, const Open& open) {
  try {
    return open();
  } catch (const Error& error) {
    throw error.saying(fmt::format("{}: {}", key, error.what()));
  }
}

std::shared_ptr<ImageSource> open_source(const JobConfig& config, const char* key, const std::string& path,
                                         ImageSplit split) {
  return with_key(key, [&]() -> std::shared_ptr<ImageSource> {
    return open_images({.path = path, .split = split, .max_pixels = config.data.max_pixels});
  });
}

std::shared_ptr<const Dataset> make_dataset(const JobConfig& config,
                                            std::shared_ptr<const ImageSource> source) {
  return std::make_shared<ImageDataset>(
      ImageDataset::Options{.source = std::move(source),
                            .view = view_options(config.data),
                            .mix = mix_options(config.data),
                            .on_bad_image = config.data.on_bad_image,
                            .seed = static_cast<std::uint64_t>(config.train.seed)});
}

ClassNames names_of(const char* key, const std::string& path, const ImageSource* images) {
  if (images == nullptr) return {};
  return {.where = fmt::format("{} = \"{}\"", key, path), .names = as_utf8(images->class_names())};
}

std::shared_ptr<const Dataset> synthetic_images(const JobConfig& config) {
  return std::make_shared<SyntheticImages>(
      SyntheticImages::Options{.num_samples = kSyntheticSamples,
                               .size = config.data.image_size,
                               .num_classes = config.model.classes,
                               .seed = static_cast<std::uint64_t>(config.train.seed)});
}

void open_evaluation(const JobConfig& config, bool read_whole, JobData& data) {
  data.eval_images = open_source(config, "data.eval", config.data.eval, ImageSplit::kEval);
  data.eval = make_dataset(config, data.eval_images);
  if (read_whole) data.eval_fingerprint = data.eval_images->fingerprint();
}

JobData open_image_data(const JobConfig& config, bool read_whole) {
  if (config.data.kind == DataKind::kSynthetic) {
    const auto data = synthetic_images(config);
    return {.train = data, .eval = config.data.eval.empty() ? nullptr : data};
  }
  JobData data;
  data.train_images = open_source(config, "data.train", config.data.train, ImageSplit::kTrain);
  data.train = make_dataset(config, data.train_images);
  if (read_whole) data.train_fingerprint = data.train_images->fingerprint();
  if (config.data.eval.empty()) return data;
  open_evaluation(config, read_whole, data);
  return data;
}

JobData open_image_eval_data(const JobConfig& config, bool read_whole) {
  if (config.data.kind == DataKind::kSynthetic) return {.eval = synthetic_images(config)};
  JobData data;
  open_evaluation(config, read_whole, data);
  return data;
}

SampleSpec image_sample_spec(const JobConfig& config) {
  const std::int64_t size = config.data.image_size;
  const bool synthetic = config.data.kind == DataKind::kSynthetic;
  const int num_labels = synthetic ? 1 : mix_options(config.data).group_size();
  return {.input = {size, size, 3},
          .input_dtype = DType::kFloat32,
          .target = num_labels > 1 ? Shape{num_labels} : Shape{},
          .target_weights = num_labels > 1};
}

}  // namespace

ClassNames classes_of_training(const JobConfig& config, const JobData& data) {
  if (!data.train_classes.empty()) {
    const std::string& annotations = config.data.train_annotations;
    return {annotations.empty() ? config.data.train : annotations, data.train_classes};
  }
  return names_of("data.train", config.data.train, data.train_images.get());
}

ClassNames classes_of_evaluation(const JobConfig& config, const JobData& data) {
  if (!data.eval_classes.empty()) {
    const std::string& annotations = config.data.eval_annotations;
    return {annotations.empty() ? config.data.eval : annotations, data.eval_classes};
  }
  return names_of("data.eval", config.data.eval, data.eval_images.get());
}

bool may_lack_classes(const JobConfig& config) {
  return !config.model.init_from.empty() && !config.model.new_head;
}

void check_classes(const JobConfig& config, const JobData& data) {
  check_same_classes(classes_of_training(config, data), classes_of_evaluation(config, data),
                     config.data.kind == DataKind::kDetection
                         ? "Both must have the same classes: correct one of the annotations"
                         : "Both must have the same class folders: add, rename or remove some");
  if (config.model.classes == 0) return;  // a network that denoises reads no labels
  // With class dropout the last class of the model stands for "no class".
  const std::int64_t num_other = config.diffusion.class_dropout > 0 ? 1 : 0;
  const auto classes_for = [&](const ImageSource& images) {
    if (num_other > 0) return config.model.classes - num_other;
    const auto named = static_cast<std::int64_t>(images.class_names().size());
    return may_lack_classes(config) && named > 0 ? std::min(named, config.model.classes)
                                                 : config.model.classes;
  };
  const auto check = [&](const char* key, const std::shared_ptr<const ImageSource>& images) {
    if (images == nullptr) return;
    with_key(key, [&] { check_labels(*images, classes_for(*images), "model.classes", num_other); });
  };
  check("data.train", data.train_images);
  check("data.eval", data.eval_images);
}

const DataModule kImageData{
    .kind = DataKind::kImages,
    .source = "a folder with class folders of images, or with CIFAR's or MNIST's files",
    .throughput_unit = "samples",
    .max_auto_workers = 16,  // more decoders are limited by memory bandwidth
    .in_order_of_classes = true,
    .sample_spec = image_sample_spec,
    .describe_sample =
        [](const JobConfig& config) { return fmt::format("{0} x {0} pixels", config.data.image_size); },
    .open = open_image_data,
    .open_eval = open_image_eval_data};

}  // namespace trireme

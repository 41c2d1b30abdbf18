#include "launcher/image_data.h"

#include "models/resnet.h"
#include "runtime/base/error.h"
#include "runtime/data/image_dataset.h"
#include "runtime/data/open_images.h"
#include "runtime/data/synthetic_images.h"

namespace trireme {
namespace {

constexpr std::int64_t kSyntheticSamples = 1024;  // a pass

MixOptions mix_options(const DataSection& data) {
  return {.mixup_alpha = data.mixup, .mosaic_probability = data.mosaic};
}

ViewOptions view_options(const DataSection& data) {
  using Crop = ViewOptions::Crop;
  return {.size = static_cast<int>(data.image_size),
          .crop = data.crop == "resized"  ? Crop::kRandomResized
                  : data.crop == "padded" ? Crop::kPadded
                                          : Crop::kCenter,
          .center = data.center,
          .padding = static_cast<int>(data.padding),
          .area = data.crop_area,
          .aspect = data.crop_aspect,
          .flip = data.flip,
          .mean = data.mean,
          .stddev = data.stddev};
}

/// Runs `open` and puts the key in front of what is wrong.
template <class Open>
auto with_key(const char* key, const Open& open) {
  try {
    return open();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", key, error.what()), error.where());
  }
}

std::shared_ptr<const ImageSource> open_source(const JobConfig& config, const char* key,
                                               const std::string& path, ImageSplit split) {
  return with_key(key, [&] {
    std::shared_ptr<const ImageSource> source = open_images({.path = path,
                                                             .split = split,
                                                             .max_pixels = config.data.max_pixels,
                                                             .cache_bytes = config.data.cache});
    check_labels(*source, config.model.classes);
    return source;
  });
}

std::shared_ptr<const Dataset> make_dataset(const JobConfig& config,
                                            std::shared_ptr<const ImageSource> source) {
  return std::make_shared<ImageDataset>(ImageDataset::Options{
      .source = std::move(source),
      .view = view_options(config.data),
      .mix = mix_options(config.data),
      .on_bad_image = config.data.on_bad_image == "skip" ? ImageDataset::OnBadImage::kSkip
                                                         : ImageDataset::OnBadImage::kFail,
      .seed = static_cast<std::uint64_t>(config.train.seed)});
}

std::shared_ptr<const Dataset> synthetic_images(const JobConfig& config) {
  return std::make_shared<SyntheticImages>(
      SyntheticImages::Options{.num_samples = kSyntheticSamples,
                               .size = config.data.image_size,
                               .num_classes = config.model.classes,
                               .seed = static_cast<std::uint64_t>(config.train.seed)});
}

}  // namespace

bool is_image_model(const ModelSection& model) {
  return find_resnet_config(model.name).has_value();
}

std::int64_t default_image_size(const ModelSection& model) {
  const auto resnet = find_resnet_config(model.name);
  return resnet && resnet->stem == ResNetConfig::Stem::kCifar ? 32 : 224;
}

JobData open_image_data(const JobConfig& config, bool read_whole) {
  if (config.data.kind == "synthetic") {
    const auto data = synthetic_images(config);
    return {.train = data, .eval = config.data.eval.empty() ? nullptr : data, .fingerprint = ""};
  }
  JobData data;
  const auto train = open_source(config, "data.train", config.data.train, ImageSplit::kTrain);
  data.train = make_dataset(config, train);
  if (read_whole) data.fingerprint += fmt::format("data.train: {}\n", train->fingerprint());
  if (config.data.eval.empty()) return data;
  const auto eval = open_source(config, "data.eval", config.data.eval, ImageSplit::kEval);
  with_key("data.eval", [&] { check_same_classes(*train, *eval); });
  data.eval = make_dataset(config, eval);
  if (read_whole) data.fingerprint += fmt::format("data.eval: {}\n", eval->fingerprint());
  return data;
}

std::shared_ptr<const Dataset> open_image_eval_data(const JobConfig& config) {
  if (config.data.kind == "synthetic") return synthetic_images(config);
  return make_dataset(config, open_source(config, "data.eval", config.data.eval, ImageSplit::kEval));
}

SampleSpec image_sample_spec(const JobConfig& config) {
  const std::int64_t size = config.data.image_size;
  const bool synthetic = config.data.kind == "synthetic";
  const int num_labels = synthetic ? 1 : mix_options(config.data).group_size();
  return {.input = {size, size, 3},
          .input_dtype = DType::kFloat32,
          .target = num_labels > 1 ? Shape{num_labels} : Shape{},
          .target_weights = num_labels > 1};
}

}  // namespace trireme

#include "launcher/data/diffusion_data.h"

#include <fmt/ranges.h>

#include <utility>

#include "launcher/data/image_data.h"
#include "runtime/base/error.h"
#include "runtime/diffusion/latent_dataset.h"
#include "runtime/diffusion/noised_samples.h"
#include "runtime/diffusion/synthetic_latents.h"

namespace trireme {
namespace {

Shape picture_shape(const JobConfig& config) {
  return {config.data.image_size, config.data.image_size, config.model.channels};
}

Shape condition_shape(const ModelSection& model) {
  return model.condition_width > 0 ? Shape{model.seq_len, model.condition_width} : Shape{};
}

/// The classes of the data. With dropout the last row of the network's table stands for "no class".
std::int64_t data_classes(const JobConfig& config) {
  const std::int64_t rows = config.model.classes;
  return rows > 0 && config.diffusion.class_dropout > 0 ? rows - 1 : rows;
}

void check_pictures(const JobConfig& config) {
  const ModelSection& model = config.model;
  if (config.data.kind != DataKind::kImages) return;
  TRIREME_CHECK(model.channels == 3, "data.kind = \"images\" has 3 channels, and model.channels = {}",
                model.channels);
  TRIREME_CHECK(model.condition_width == 0,
                "data.kind = \"images\" has no condition, and model.condition_width = {}: write latents with "
                "a condition (examples/latents.py) and set data.kind = \"latents\"",
                model.condition_width);
}

/// `num_evaluated`: see NoisedSamples::Options.
std::shared_ptr<const Dataset> with_noise(const JobConfig& config, std::shared_ptr<const Dataset> samples,
                                          std::int64_t num_evaluated,
                                          std::vector<float> null_condition = {}) {
  if (samples == nullptr) return nullptr;
  NoisedSamples::Options options;
  options.samples = std::move(samples);
  options.schedule = noise_schedule_of(config.diffusion);
  options.target = config.diffusion.prediction;
  options.min_snr_gamma = config.diffusion.min_snr_gamma;
  options.classes = config.model.classes;
  options.class_dropout = config.diffusion.class_dropout;
  options.null_condition = std::move(null_condition);
  options.seed = static_cast<std::uint64_t>(config.train.seed);
  options.num_evaluated = num_evaluated;
  return std::make_shared<NoisedSamples>(std::move(options));
}

std::shared_ptr<const Dataset> synthetic_noise(const JobConfig& config, std::int64_t num_evaluated) {
  SyntheticLatents::Options options;
  options.latent = picture_shape(config);
  options.condition = condition_shape(config.model);
  options.classes = data_classes(config);
  options.seed = static_cast<std::uint64_t>(config.train.seed);
  return with_noise(config, std::make_shared<SyntheticLatents>(options), num_evaluated);
}

/// The weights of the network do not depend on the number of vectors.
void check_condition_vectors(const JobConfig& config, const std::string& path) {
  const std::int64_t needed = config.model.seq_len;
  const std::int64_t found = config.model.condition_width > 0 ? condition_vectors(path) : 0;
  TRIREME_CHECK(found == 0 || found == needed,
                "{}: `condition` has {} vectors for a sample, the model reads {}: set model.seq_len = {}",
                path, found, needed, found);
}

std::shared_ptr<const Dataset> open_latents(const JobConfig& config, const char* key, const std::string& path,
                                            std::int64_t num_evaluated, bool read_whole,
                                            std::optional<DataFingerprint>& fingerprint) {
  try {
    check_condition_vectors(config, path);
    const auto latents =
        std::make_shared<LatentDataset>(path,
                                        LatentDataset::Shapes{.latent = picture_shape(config),
                                                              .condition = condition_shape(config.model),
                                                              .classes = data_classes(config)},
                                        static_cast<std::uint64_t>(config.train.seed));
    if (read_whole) fingerprint = latents->fingerprint();
    return with_noise(config, latents, num_evaluated, latents->null_condition());
  } catch (const Error& error) {
    throw error.saying(fmt::format("{}: {}", key, error.what()));
  }
}

/// The job with pictures in [-1, 1].
JobConfig in_unit_range(JobConfig config) {
  config.data.mean = {0.5, 0.5, 0.5};
  config.data.stddev = {0.5, 0.5, 0.5};
  return config;
}

/// `trireme eval`: of all samples.
JobData open_noised_eval(const JobConfig& config, bool read_whole) {
  check_pictures(config);
  if (config.data.kind == DataKind::kSynthetic) return {.eval = synthetic_noise(config, 0)};
  JobData data;
  if (config.data.kind == DataKind::kLatents) {
    data.eval = open_latents(config, "data.eval", config.data.eval, 0, read_whole, data.eval_fingerprint);
    return data;
  }
  data = kImageData.open_eval(in_unit_range(config), read_whole);
  data.eval = with_noise(config, data.eval, 0);
  return data;
}

JobData open_noised(const JobConfig& config, bool read_whole) {
  check_pictures(config);
  const DataSection& section = config.data;
  const std::int64_t num_evaluated = config.train.eval_batches * config.train.global_batch;
  JobData data;
  if (section.kind == DataKind::kImages) {
    data = kImageData.open(in_unit_range(config), read_whole);
    data.train = with_noise(config, data.train, 0);
    data.eval = with_noise(config, data.eval, num_evaluated);
  } else if (section.kind == DataKind::kSynthetic) {
    data.train = synthetic_noise(config, 0);
    if (!section.eval.empty()) data.eval = synthetic_noise(config, num_evaluated);
  } else {
    data.train = open_latents(config, "data.train", section.train, 0, read_whole, data.train_fingerprint);
    if (!section.eval.empty()) {
      data.eval =
          open_latents(config, "data.eval", section.eval, num_evaluated, read_whole, data.eval_fingerprint);
    }
  }
  return data;
}

SampleSpec noised_sample_spec(const JobConfig& config) {
  SampleSpec spec;
  spec.input = picture_shape(config);
  spec.input_dtype = DType::kFloat32;
  spec.target = spec.input;
  spec.target_dtype = DType::kFloat32;
  spec.target_weights = true;
  spec.timesteps = true;
  spec.condition = condition_shape(config.model);
  spec.classes = config.model.classes > 0;
  return spec;
}

}  // namespace

NoiseSchedule::Options noise_schedule_of(const DiffusionSection& diffusion) {
  return {.kind = diffusion.schedule, .betas = diffusion.betas};
}

void check_diffusion(const JobConfig& config) {
  const DiffusionSection& diffusion = config.diffusion;
  try {
    NoiseSchedule{noise_schedule_of(diffusion)};
  } catch (const Error& error) {
    throw error.saying(
        fmt::format("diffusion.betas = [{}]: {}", fmt::join(diffusion.betas, ", "), error.what()));
  }
  TRIREME_CHECK(
      diffusion.class_dropout == 0 || config.model.classes > 1 || config.model.condition_width > 0,
      "diffusion.class_dropout = {} needs model.classes or model.condition_width: model.classes is the "
      "number of the data's classes and one more, which stands for \"no class\"",
      diffusion.class_dropout);
}

const DataModule kDiffusionData{
    .kind = DataKind::kImages,
    .source =
        "a folder with class folders of images or with CIFAR's files, or shards of latents with data.kind "
        "= \"latents\"",
    .throughput_unit = "samples",
    .max_auto_workers = 16,
    .in_order_of_classes = true,
    .other_kind = DataKind::kLatents,
    .sample_spec = noised_sample_spec,
    .describe_sample =
        [](const JobConfig& config) {
          return fmt::format("{0} x {0} x {1}", config.data.image_size, config.model.channels);
        },
    .open = open_noised,
    .open_eval = open_noised_eval};

}  // namespace trireme

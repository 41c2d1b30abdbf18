#include "launcher/data/diffusion_data.h"

#include "runtime/base/error.h"
#include "runtime/data/synthetic_noise.h"

namespace trireme {
namespace {

constexpr std::int64_t kSyntheticNoiseSamples = 1024;  // per pass

SyntheticNoise::Options noise_options(const JobConfig& config) {
  const ModelSection& model = config.model;
  return {.num_samples = kSyntheticNoiseSamples,
          .size = config.data.image_size,
          .channels = model.channels,
          .condition_vectors = model.condition_width > 0 ? model.seq_len : 0,
          .condition_width = model.condition_width,
          .num_classes = model.classes,
          .seed = static_cast<std::uint64_t>(config.train.seed)};
}

std::shared_ptr<const Dataset> open_noise(const JobConfig& config) {
  if (config.data.kind != DataKind::kSynthetic) {
    throw Error(ErrorCode::kUnsupported, "data.kind = \"{}\" is not read for {} yet: set it to \"synthetic\"",
                to_word(config.data.kind), config.model.name);
  }
  return std::make_shared<SyntheticNoise>(noise_options(config));
}

JobData open_noise_data(const JobConfig& config, bool) {
  const auto data = open_noise(config);
  return {.train = data, .eval = config.data.eval.empty() ? nullptr : data};
}

JobData open_noise_eval_data(const JobConfig& config, bool) {
  return {.eval = open_noise(config)};
}

SampleSpec noise_sample_spec(const JobConfig& config) {
  const ModelSection& model = config.model;
  SampleSpec spec;
  spec.input = {config.data.image_size, config.data.image_size, model.channels};
  spec.input_dtype = DType::kFloat32;
  spec.target = spec.input;
  spec.target_dtype = DType::kFloat32;
  spec.timesteps = true;
  if (model.condition_width > 0) spec.condition = {model.seq_len, model.condition_width};
  spec.classes = model.classes > 0;
  return spec;
}

}  // namespace

const DataModule kDiffusionData{.kind = DataKind::kImages,
                                .source = "a folder of images",
                                .throughput_unit = "samples",
                                .sample_spec = noise_sample_spec,
                                .describe_sample =
                                    [](const JobConfig& config) {
                                      return fmt::format("{0} x {0} x {1}", config.data.image_size,
                                                         config.model.channels);
                                    },
                                .open = open_noise_data,
                                .open_eval = open_noise_eval_data};

}  // namespace trireme

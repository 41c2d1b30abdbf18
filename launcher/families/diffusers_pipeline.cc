#include "launcher/families/diffusers_pipeline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "models/unet_diffusers.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_library.h"

namespace trireme {
namespace {

constexpr const char* kSchedulerFolder = "scheduler";
constexpr const char* kSchedulerFile = "scheduler_config.json";
constexpr const char* kSchedulerClass = "DDPMScheduler";
constexpr const char* kDdimClass = "DDIMScheduler";  // has set_alpha_to_one, and DDPMScheduler has not
constexpr const char* kPndmClass = "PNDMScheduler";

// Schedulers of the process of [Note: diffusion]. They differ in sampling alone.
constexpr std::array<std::string_view, 12> kSchedulers = {"DDPMScheduler",
                                                          "DDIMScheduler",
                                                          "PNDMScheduler",
                                                          "DPMSolverMultistepScheduler",
                                                          "DPMSolverSinglestepScheduler",
                                                          "DEISMultistepScheduler",
                                                          "UniPCMultistepScheduler",
                                                          "LMSDiscreteScheduler",
                                                          "EulerDiscreteScheduler",
                                                          "EulerAncestralDiscreteScheduler",
                                                          "HeunDiscreteScheduler",
                                                          "KDPM2DiscreteScheduler"};

template <class Value>
struct TheirWord {
  std::string_view word;
  Value value;
};
using enum NoiseSchedule::Kind;
constexpr TheirWord<NoiseSchedule::Kind> kTheirSchedules[] = {
    {"linear", kLinear}, {"scaled_linear", kScaledLinear}, {"squaredcos_cap_v2", kCosine}};
constexpr TheirWord<DiffusionTarget> kTheirTargets[] = {{"epsilon", DiffusionTarget::kNoise},
                                                        {"v_prediction", DiffusionTarget::kVelocity},
                                                        {"sample", DiffusionTarget::kSample}};

template <class Value, std::size_t kCount>
Value value_of_word(const HfConfig& config, const char* key, const TheirWord<Value> (&words)[kCount]) {
  const std::string text = config.text(key, std::string(words[0].word));
  const auto found = std::ranges::find(words, text, &TheirWord<Value>::word);
  if (found != std::end(words)) return found->value;
  std::vector<std::string_view> known;
  for (const auto& word : words) known.push_back(word.word);
  config.refuse(key, fmt::format("{}", fmt::join(known, ", ")));
}

template <class Value, std::size_t kCount>
std::string_view word_of_value(Value value, const TheirWord<Value> (&words)[kCount]) {
  return std::ranges::find(words, value, &TheirWord<Value>::value)->word;
}

const char* scheduler_class(const DiffusionSection& diffusion) {
  return diffusion.set_alpha_to_one ? kSchedulerClass : kDdimClass;
}

nlohmann::ordered_json scheduler_config(const JobConfig& config) {
  const DiffusionSection& diffusion = config.diffusion;
  const std::array<double, 2> betas =
      diffusion.betas[1] > 0 ? diffusion.betas : NoiseSchedule::default_betas(diffusion.schedule);
  nlohmann::ordered_json json = {{"_class_name", scheduler_class(diffusion)},
                                 {"_diffusers_version", kDiffusersVersion},
                                 {"num_train_timesteps", NoiseSchedule::kNumTimesteps},
                                 {"beta_schedule", word_of_value(diffusion.schedule, kTheirSchedules)},
                                 {"prediction_type", word_of_value(diffusion.prediction, kTheirTargets)},
                                 {"clip_sample", config.data.kind != DataKind::kLatents},
                                 {"timestep_spacing", "leading"},
                                 {"steps_offset", diffusion.steps_offset}};
  if (diffusion.set_alpha_to_one) {
    json["variance_type"] = "fixed_small";
  } else {
    json["set_alpha_to_one"] = false;
  }
  if (diffusion.schedule != kCosine) {
    json["beta_start"] = betas[0];
    json["beta_end"] = betas[1];
  }
  return json;
}

nlohmann::ordered_json model_index(const JobConfig& config) {
  nlohmann::ordered_json json = {
      {"_class_name", config.diffusion.set_alpha_to_one ? "DDPMPipeline" : "DDIMPipeline"},
      {"_diffusers_version", kDiffusersVersion},
      {"scheduler", {"diffusers", scheduler_class(config.diffusion)}},
      {kDiffusersNetwork, {"diffusers", kUnet2dClass}}};
  if (config.model.condition_width == 0) return json;
  json["_class_name"] = "StableDiffusionPipeline";
  json[kDiffusersNetwork] = {"diffusers", kUnet2dConditionClass};
  for (const char* missing :
       {"vae", "text_encoder", "tokenizer", "safety_checker", "feature_extractor", "image_encoder"}) {
    json[missing] = nlohmann::ordered_json::array({nullptr, nullptr});
  }
  return json;
}

}  // namespace

std::optional<DiffusionSection> scheduler_of_pipeline(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder / kSchedulerFolder / kSchedulerFile, error)) return std::nullopt;
  const HfConfig config(folder / kSchedulerFolder, kSchedulerFile);
  const std::string type = config.model_type();
  if (std::ranges::find(kSchedulers, type) == kSchedulers.end()) {
    config.refuse("_class_name", fmt::format("{}", fmt::join(kSchedulers, ", ")));
  }
  config.expect("num_train_timesteps", NoiseSchedule::kNumTimesteps);
  config.expect("trained_betas", nullptr);
  config.expect("rescale_betas_zero_snr", false);
  DiffusionSection diffusion;
  diffusion.schedule = value_of_word(config, "beta_schedule", kTheirSchedules);
  diffusion.prediction = value_of_word(config, "prediction_type", kTheirTargets);
  if (diffusion.schedule != kCosine) {
    diffusion.betas = {config.positive("beta_start", 1e-4), config.positive("beta_end", 0.02)};
  }
  diffusion.steps_offset = config.natural("steps_offset");
  if (diffusion.steps_offset >= NoiseSchedule::kNumTimesteps) {
    config.refuse("steps_offset", fmt::format("0 to {}", NoiseSchedule::kNumTimesteps - 1));
  }
  // PNDMScheduler differs from the others in its default.
  diffusion.set_alpha_to_one = config.flag("set_alpha_to_one", type != kPndmClass);
  return diffusion;
}

void write_pipeline_files(const JobConfig& config, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / kSchedulerFolder);
  write_text_file(folder / kSchedulerFolder / kSchedulerFile, scheduler_config(config).dump(2) + "\n");
  write_text_file(folder / kDiffusersIndexFile, model_index(config).dump(2) + "\n");
}

}  // namespace trireme

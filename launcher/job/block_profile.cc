#include "launcher/job/block_profile.h"

#include <fmt/core.h>

#include "launcher/families/model_family.h"
#include "launcher/job/build.h"

namespace trireme {
namespace {

std::string describe_model(const JobConfig& config) {
  const ModelFamily& family = family_of(config.model);
  return fmt::format("{}, {}{}", config.model.name, family.describe(config), family.variant(config.model));
}

}  // namespace

BlockProfile measure_profile(const JobConfig& config, const Device& device, int threads) {
  JobConfig synthetic = config;  // with the right shapes; no file is read
  synthetic.data.kind = DataKind::kSynthetic;
  const JobData data = open_data(synthetic, /*read_whole=*/false);
  const auto blocks = build_blocks(config.model);
  return {.model = describe_model(config),
          .micro_batch = config.train.micro_batch,
          .precision = to_word(config.precision.mode),
          .device = to_string(device),
          .threads = threads,
          .blocks = measure_block_times(*blocks, data.train->read_train(0, config.train.micro_batch),
                                        {.device = device,
                                         .threads = threads,
                                         .precision = build_precision(config.precision),
                                         .recompute = config.parallel.layout.recompute})};
}

std::string describe_mismatch(const BlockProfile& profile, const JobConfig& config) {
  if (profile.model != describe_model(config)) {
    return fmt::format("the model \"{}\", not \"{}\"", profile.model, describe_model(config));
  }
  if (profile.micro_batch != config.train.micro_batch) {
    return fmt::format("train.micro_batch = {}, not {}", profile.micro_batch, config.train.micro_batch);
  }
  if (profile.precision != to_word(config.precision.mode)) {
    return fmt::format("precision.mode = \"{}\", not \"{}\"", profile.precision,
                       to_word(config.precision.mode));
  }
  const auto blocks = build_blocks(config.model);
  if (profile.blocks.size() != blocks->size()) {
    return fmt::format("{} blocks, not the model's {}", profile.blocks.size(), blocks->size());
  }
  for (std::size_t b = 0; b < blocks->size(); ++b) {
    const std::string& found = profile.blocks[b].block;
    if (found != (*blocks)[b]->name())
      return fmt::format("block {} called {}, not {}", b, found, (*blocks)[b]->name());
  }
  return "";
}

std::string describe_other_place(const BlockProfile& profile, const Device& device, int threads) {
  if (profile.device != to_string(device)) {
    return fmt::format("the device {}, not {}", profile.device, to_string(device));
  }
  if (profile.threads != threads) {
    return fmt::format("{} thread(s), not the {} of a rank here (parallel.threads, --ranks)", profile.threads,
                       threads);
  }
  return "";
}

}  // namespace trireme

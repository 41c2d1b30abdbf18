#include "launcher/block_profile.h"

#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/build.h"
#include "launcher/image_data.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::string describe_model(const JobConfig& config) {
  const ModelSection& model = config.model;
  if (is_image_model(model)) {
    return fmt::format("{}, {} classes, images of {} x {}", model.name, model.classes, config.data.image_size,
                       config.data.image_size);
  }
  return fmt::format("{}, {} layers, {} wide, {} heads, vocabulary {}, context {}, {}", model.name,
                     model.layers, model.hidden, model.heads, model.vocab, model.seq_len,
                     model.tied ? "tied" : "untied");
}

}  // namespace

BlockProfile measure_profile(const JobConfig& config, const Device& device, int threads) {
  JobConfig synthetic = config;  // of the right shapes; no file is read
  synthetic.data.kind = "synthetic";
  const JobData data = open_data(synthetic, /*read_whole=*/false);
  const auto blocks = build_blocks(config.model);
  return {.model = describe_model(config),
          .micro_batch = config.train.micro_batch,
          .precision = config.precision.mode,
          .device = to_string(device),
          .threads = threads,
          .blocks = measure_block_times(
              *blocks, data.train->read_train(0, config.train.micro_batch),
              {.device = device, .threads = threads, .precision = build_precision(config.precision)})};
}

std::string describe_mismatch(const BlockProfile& profile, const JobConfig& config) {
  if (profile.model != describe_model(config)) {
    return fmt::format("the model \"{}\", not \"{}\"", profile.model, describe_model(config));
  }
  if (profile.micro_batch != config.train.micro_batch) {
    return fmt::format("train.micro_batch = {}, not {}", profile.micro_batch, config.train.micro_batch);
  }
  if (profile.precision != config.precision.mode) {
    return fmt::format("precision.mode = \"{}\", not \"{}\"", profile.precision, config.precision.mode);
  }
  return "";
}

std::string to_json(const BlockProfile& profile) {
  Json blocks = Json::array();
  for (const BlockTime& time : profile.blocks) {
    blocks.push_back(
        {{"block", time.block}, {"forward_ms", time.forward_ms}, {"backward_ms", time.backward_ms}});
  }
  const Json json = {{"model", profile.model},         {"micro_batch", profile.micro_batch},
                     {"precision", profile.precision}, {"device", profile.device},
                     {"threads", profile.threads},     {"blocks", blocks}};
  return json.dump(1) + "\n";
}

BlockProfile read_profile(const std::filesystem::path& file) {
  std::ifstream in(file);
  TRIREME_CHECK(in, "{}: cannot be read", file.string());
  try {
    const auto json = nlohmann::json::parse(in);
    BlockProfile profile{.model = json.at("model"),
                         .micro_batch = json.at("micro_batch"),
                         .precision = json.at("precision"),
                         .device = json.at("device"),
                         .threads = json.at("threads")};
    for (const auto& block : json.at("blocks")) {
      profile.blocks.push_back({block.at("block"), block.at("forward_ms"), block.at("backward_ms")});
    }
    return profile;
  } catch (const nlohmann::json::exception& e) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{}: no profile of blocks as `trireme plan --times` writes it: {}", file.string(),
                            e.what()));
  }
}

}  // namespace trireme

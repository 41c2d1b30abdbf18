// Reads and writes profiles as text: the file of --times, and block_times.json.
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/job/block_profile.h"
#include "launcher/render/json_text.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

void check_times(const BlockProfile& profile, const std::filesystem::path& file) {
  for (const BlockTime& time : profile.blocks) {
    for (const auto& [key, ms] :
         {std::pair("forward_ms", time.forward_ms), std::pair("backward_ms", time.backward_ms)}) {
      TRIREME_CHECK(ms > 0 && ms <= 1e9,
                    "{}: {} of block {} is {}: a time is a number of milliseconds above 0, at most 1e9",
                    file.string(), key, time.block, ms);
    }
  }
}

}  // namespace

std::string to_json(const BlockProfile& profile) {
  Json blocks = Json::array();
  for (const BlockTime& time : profile.blocks) {
    blocks.push_back(
        {{"block", time.block}, {"forward_ms", time.forward_ms}, {"backward_ms", time.backward_ms}});
  }
  const Json json = {{"model", profile.model},         {"micro_batch", profile.micro_batch},
                     {"precision", profile.precision}, {"device", profile.device},
                     {"threads", profile.threads},     {"blocks", blocks}};
  return json_text(json, 1) + "\n";
}

BlockProfile read_profile(const std::filesystem::path& file) {
  const nlohmann::json json = read_json_file(file, "file of block times");
  BlockProfile profile;
  try {
    profile = {.model = json.at("model"),
               .micro_batch = read_integer<std::int64_t>(json, "micro_batch"),
               .precision = json.at("precision"),
               .device = json.at("device"),
               .threads = read_integer<int>(json, "threads")};
    for (const auto& block : json.at("blocks")) {
      profile.blocks.push_back({block.at("block"), block.at("forward_ms"), block.at("backward_ms")});
    }
  } catch (const std::exception& e) {
    throw Error(ErrorCode::kInvalidInput, "{}: no profile of blocks as `trireme plan --times` writes it: {}",
                file.string(), e.what());
  }
  check_times(profile, file);
  return profile;
}

}  // namespace trireme

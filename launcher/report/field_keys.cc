#include "launcher/report/field_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

// Fields whose key is not their name in [parallel].
constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
    {"pipeline.stages", "parallel.pipeline"}, {"pipeline.schedule", "parallel.schedule"},
    {"pipeline.chunks", "parallel.chunks"},   {"pipeline.cut", "parallel.pipeline_cut"},
    {"micro_batch", "train.micro_batch"},     {"global_batch", "train.global_batch"},
    {"data_cache_bytes", "data.cache"},
};

}  // namespace

std::string key_of(std::string_view field) {
  const auto found = std::ranges::find(kKeys, field, [](const auto& entry) { return entry.first; });
  return found != std::end(kKeys) ? std::string(found->second) : fmt::format("parallel.{}", field);
}

std::string with_keys(std::string_view message) {
  constexpr std::string_view kFieldOf = "EngineOptions::";
  std::string text;
  while (true) {
    const std::size_t at = message.find(kFieldOf);
    text += message.substr(0, at);
    if (at == std::string_view::npos) return text;
    message.remove_prefix(at + kFieldOf.size());
    std::size_t end = std::min(message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_."), message.size());
    while (end > 0 && message[end - 1] == '.') --end;  // of a sentence
    text += key_of(message.substr(0, end));
    message.remove_prefix(end);
  }
}

}  // namespace trireme

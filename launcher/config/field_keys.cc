#include "launcher/config/field_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

// Fields of EngineOptions and Layout whose key differs from their name in [parallel].
constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
    {"cut", "parallel.pipeline_cut"},
    {"micro_batch", "train.micro_batch"},
    {"global_batch", "train.global_batch"},
    {"data_cache_bytes", "data.cache"},
    {"ema", "train.ema"},
    {"verify_state", "checkpoint.verify_every"},
    {"snapshots", "checkpoint.background"},
};

// Fields of other structs, in the form used in messages.
constexpr std::pair<std::string_view, std::string_view> kOtherFields[] = {
    {"Precision::grad_dtype", "precision.grad_dtype"},
    {"Precision::mode", "precision.mode"},
    {"Precision::override_op", "precision.ops"},
    {"TokenDataset::Options::vocab_size", "model.vocab"},
    {"TokenDataset::Options::sequence_length", "model.seq_len"},
    {"EncodedImage::max_pixels", "data.max_pixels"},
    {"ImageDataset::Options::on_bad_image = OnBadImage::kSkip",
     "data.on_bad_image = \"skip\" (trireme eval: --on-bad-image skip)"},
};

std::string describe_advice(const Change& change, int data_ranks) {
  if (change.field == "data_cache_bytes") return "a smaller data.cache";
  const bool wants_ranks = change.field == "zero" && data_ranks == 1;
  return describe_as_key(change) + (wants_ranks ? " on more ranks" : "");
}

/// `message` with keys in place of the fields that follow `prefix`.
std::string with_keys_of(std::string_view prefix, std::string_view message) {
  std::string text;
  while (true) {
    const std::size_t at = message.find(prefix);
    text += message.substr(0, at);
    if (at == std::string_view::npos) return text;
    message.remove_prefix(at + prefix.size());
    const std::size_t end =
        std::min(message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), message.size());
    text += key_of(message.substr(0, end));
    message.remove_prefix(end);
  }
}

}  // namespace

std::string key_of(std::string_view field) {
  const auto found = std::ranges::find(kKeys, field, [](const auto& entry) { return entry.first; });
  return found != std::end(kKeys) ? std::string(found->second) : fmt::format("parallel.{}", field);
}

std::string with_keys(std::string_view message) {
  std::string text = with_keys_of("EngineOptions::", with_keys_of("Layout::", message));
  for (const auto& [field, key] : kOtherFields) {
    for (std::size_t at = text.find(field); at != std::string::npos; at = text.find(field, at + key.size())) {
      text.replace(at, field.size(), key);
    }
  }
  return text;
}

std::string describe_as_key(const Change& change) {
  std::string value = to_text(change.value);
  if (change.field == "num_ranks") return value + " ranks";
  if (change.field == "data_cache_bytes" && value != "0") {
    value = fmt::format("\"{} MiB\"", std::get<std::int64_t>(change.value) >> 20);
  }
  return fmt::format("{} = {}", key_of(change.field), value);
}

std::string describe_as_keys(const std::vector<Change>& changes) {
  std::vector<std::string> parts;
  for (const Change& change : changes) parts.push_back(describe_as_key(change));
  return listed(parts);
}

std::string describe(const std::vector<MemoryAdvice>& advice, int data_ranks) {
  if (advice.empty()) return "choose a smaller model, more ranks or a device with more memory";
  std::string text;
  for (const MemoryAdvice& one : advice) {
    if (!text.empty()) text += "; ";
    for (const Change& change : one.changes) {
      text += (change == one.changes.front() ? "" : " or ") + describe_advice(change, data_ranks);
    }
    text += fmt::format(" would reduce {} ({})", name(one.category), format_bytes(one.bytes));
  }
  return text;
}

}  // namespace trireme

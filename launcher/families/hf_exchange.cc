#include "launcher/families/hf_exchange.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "launcher/families/model_family.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_labels.h"

namespace trireme {
namespace {

/// Validates the values of config.json before keys of the job override them, so that errors name the right
/// source.
ModelSection checked_shape(const ModelFamily& family, const HfConfig& config) {
  ModelSection model = family.hf->read(config);
  model.name = family.names.front();
  try {
    family.check(model);
  } catch (const Error& error) {
    throw error.saying(
        fmt::format("{} makes no model of this build: {}", config.path().string(), error.what()));
  }
  return model;
}

}  // namespace

std::optional<std::string> hf_folder_in(std::string_view text) {
  if (!text.starts_with(kHfPrefix) || text.size() == kHfPrefix.size()) return std::nullopt;
  return std::string(text.substr(kHfPrefix.size()));
}

ModelSection model_of_hf_folder(const std::filesystem::path& folder, std::vector<std::string>* notes) {
  const HfConfig config(folder);
  const std::string type = config.model_type();
  std::vector<std::string_view> known;
  for (const ModelFamily* family : model_families()) {
    if (family->hf == nullptr) continue;
    const std::span<const std::string_view> types = family->hf->model_types;
    if (std::ranges::find(types, type) != types.end()) {
      ModelSection model = checked_shape(*family, config);
      if (notes != nullptr) *notes = config.notes();
      return model;
    }
    known.insert(known.end(), types.begin(), types.end());
  }
  throw Error(
      ErrorCode::kUnsupported,
      "{}: model_type is \"{:.100}\", and this build reads {}; launcher/guide.md says what is read from them",
      config.path().string(), type, fmt::join(known, ", "));
}

HfModel hf_model_of(const ModelSection& model, const std::vector<std::string>& class_names) {
  const HfFormat* format = family_of(model).hf;
  if (format == nullptr) {
    std::string known;
    for (const ModelFamily* family : model_families()) {
      if (family->hf != nullptr) known += (known.empty() ? "" : ", ") + std::string(family->plural);
    }
    throw Error(ErrorCode::kUnsupported, "a {} has no form in Hugging Face's format here; {} have",
                model.name, known);
  }
  HfModel written = format->write(model);
  if (written.config.contains("id2label")) set_labels(written.config, model.classes, class_names);
  return written;
}

}  // namespace trireme

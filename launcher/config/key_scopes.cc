#include "launcher/config/key_scopes.h"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/families/model_family.h"

namespace trireme {
namespace {

KeyScope for_families(bool (*includes)(const ModelFamily&, std::string_view key), std::string_view key) {
  std::string text;
  for (const ModelFamily* family : model_families()) {
    if (includes(*family, key)) text += fmt::format("{}{}", text.empty() ? "" : ", ", family->plural);
  }
  return {.text = text,
          .decided_by = "model.name",
          .holds = [includes, key = std::string(key)](const JobConfig& job) {
            return includes(family_of(job.model), key);
          }};
}

}  // namespace

KeyScope for_families_with(std::string_view key) {
  return for_families(
      [](const ModelFamily& family, std::string_view name) {
        return std::ranges::find(family.keys, name) != family.keys.end();
      },
      key);
}

KeyScope for_image_models() {
  return for_families(
      [](const ModelFamily& family, std::string_view) { return family.data.kind == DataKind::kImages; }, "");
}

KeyScope for_crop(ViewOptions::Crop crop) {
  return {.text = fmt::format("crop = \"{}\"", to_word(crop)),
          .decided_by = "data.crop",
          .holds = [crop](const JobConfig& job) { return job.data.crop == crop; }};
}

}  // namespace trireme

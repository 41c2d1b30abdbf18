#include "launcher/keys/key_scopes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/families/model_family.h"

namespace trireme {
namespace {

KeyScope for_families(bool (*includes)(const ModelFamily&, std::string_view key), std::string_view key) {
  std::vector<std::string_view> plurals;
  for (const ModelFamily* family : model_families()) {
    if (includes(*family, key)) plurals.push_back(family->plural);
  }
  std::string text;
  for (std::size_t i = 0; i < plurals.size(); ++i) {
    if (i > 0) text += i + 1 < plurals.size() ? ", " : " and ";
    text += plurals[i];
  }
  return {.text = std::move(text),
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

KeyScope for_picture_models() {
  return for_families(
      [](const ModelFamily& family, std::string_view) { return keeps_pictures(family.data.kind); }, "");
}

KeyScope for_image_classifiers() {
  return for_families(
      [](const ModelFamily& family, std::string_view) {
        return family.data.kind == DataKind::kImages && !family.makes_pictures;
      },
      "");
}

KeyScope for_detectors() {
  return for_families([](const ModelFamily& family, std::string_view) { return family.detects; }, "");
}

KeyScope for_augmented_models() {
  return for_families(
      [](const ModelFamily& family, std::string_view) {
        return keeps_pictures(family.data.kind) && !family.makes_pictures;
      },
      "");
}

KeyScope for_diffusion_models() {
  return for_families([](const ModelFamily& family, std::string_view) { return family.makes_pictures; }, "");
}

KeyScope for_masked_models() {
  return for_families([](const ModelFamily& family, std::string_view) { return family.data.masks_tokens; },
                      "");
}

KeyScope for_document_models() {
  return for_families(
      [](const ModelFamily& family, std::string_view) {
        return family.data.other_kind && is_of_documents(*family.data.other_kind);
      },
      "");
}

KeyScope for_crop(ViewOptions::Crop crop) {
  return {.text = fmt::format("crop = \"{}\"", to_word(crop)),
          .decided_by = "data.crop",
          .holds = [crop](const JobConfig& job) { return job.data.crop == crop; }};
}

KeyScope for_optimizers(std::vector<OptimizerConfig::Kind> kinds) {
  std::string names;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (i > 0) names += i + 1 < kinds.size() ? ", " : " or ";
    names += fmt::format("\"{}\"", to_word(kinds[i]));
  }
  return {.text = "optimizer.name = " + names,
          .decided_by = "optimizer.name",
          .holds = [kinds = std::move(kinds)](const JobConfig& job) {
            return std::ranges::find(kinds, job.optimizer.name) != kinds.end();
          }};
}

KeyScope for_partner_copies() {
  return {.text = "checkpoint.partner = true",
          .decided_by = "checkpoint.partner",
          .holds = [](const JobConfig& job) { return job.checkpoint.partner; }};
}

KeyScope for_searched_layouts() {
  return {.text = fmt::format("layout = \"{}\"", to_word(LayoutChoice::kAuto)),
          .decided_by = "parallel.layout",
          .holds = [](const JobConfig& job) { return job.parallel.is_searched(); }};
}

KeyScope for_schedule(LrSchedule::Kind schedule) {
  return {.text = fmt::format("optimizer.schedule = \"{}\"", to_word(schedule)),
          .decided_by = "optimizer.schedule",
          .holds = [schedule](const JobConfig& job) { return job.optimizer.schedule == schedule; }};
}

}  // namespace trireme

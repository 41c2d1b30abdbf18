#include "launcher/commands/eval_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "launcher/keys/job_file.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

/// Keys that an evaluation refuses: one key, or a section if the name ends with a dot.
struct RefusedKeys {
  std::string_view name;
  std::string_view reason;
};
// The first matching row decides.
constexpr std::array kRefused{
    RefusedKeys{"model.", "the checkpoint has the weights of one model"},
    RefusedKeys{"optimizer.", "an evaluation updates no weights"},
    RefusedKeys{"checkpoint.", "an evaluation writes no checkpoint"},
    RefusedKeys{"log.", "an evaluation writes no log"},
    RefusedKeys{"train.", "an evaluation runs no training step; of [train] it takes micro_batch"},
    RefusedKeys{"data.train", "an evaluation reads data.eval"},
    RefusedKeys{"data.train_annotations", "an evaluation reads data.eval_annotations"},
    RefusedKeys{"data.cache", "an evaluation reads each sample once"},
    RefusedKeys{"data.crop", "an evaluation does not augment images"},
    RefusedKeys{"data.crop_area", "an evaluation does not augment images"},
    RefusedKeys{"data.crop_aspect", "an evaluation does not augment images"},
    RefusedKeys{"data.padding", "an evaluation does not augment images"},
    RefusedKeys{"data.flip", "an evaluation does not augment images"},
    RefusedKeys{"data.mixup", "an evaluation does not augment images"},
    RefusedKeys{"data.mosaic", "an evaluation does not augment images"},
    RefusedKeys{"data.scale", "an evaluation does not augment images"},
    RefusedKeys{"data.mixup_scale", "an evaluation does not augment images"},
    RefusedKeys{"data.shift", "an evaluation does not augment images"},
    RefusedKeys{"data.hsv", "an evaluation does not augment images"},
    RefusedKeys{"data.multi_scale", "an evaluation does not augment images"},
    RefusedKeys{"data.multi_scale_steps", "an evaluation does not augment images"},
    RefusedKeys{"data.mosaic_off_steps", "an evaluation does not augment images"},
    RefusedKeys{"precision.", "an evaluation has no gradients; of [precision] it takes mode and ops"},
    RefusedKeys{"parallel", "an evaluation searches no layout"},
    RefusedKeys{"parallel.layout", "an evaluation searches no layout"},
    RefusedKeys{"parallel.cluster", "an evaluation searches no layout"},
    RefusedKeys{"parallel.cluster_device", "an evaluation searches no layout"},
    RefusedKeys{"parallel.reduction", "an evaluation has no gradients"},
    RefusedKeys{"parallel.offload", "an evaluation has no optimizer state"},
    RefusedKeys{"parallel.cuda_graph", "an evaluation records no step"},
    RefusedKeys{"parallel.tune_products", "an evaluation measures no products"},
};
constexpr std::array<std::string_view, 3> kTaken{"train.micro_batch", "precision.mode", "precision.ops"};

bool is_taken(std::string_view name) {
  return std::ranges::any_of(kTaken, [name](std::string_view taken) {
    return name == taken || (name.starts_with(taken) && name[taken.size()] == '.');
  });
}

void check_taken(const std::string& text) {
  const std::string_view name = std::string_view(text).substr(0, text.find('='));
  if (is_taken(name)) return;
  for (const RefusedKeys& refused : kRefused) {
    const bool is_section = refused.name.ends_with('.');
    const bool matches =
        name == refused.name || (is_section && (name.starts_with(refused.name) ||
                                                name == refused.name.substr(0, refused.name.size() - 1)));
    TRIREME_CHECK(!matches, "--set {}: trireme eval does not take {}: {}", text, name, refused.reason);
  }
  for (const LayoutField& field : layout_fields()) {
    TRIREME_CHECK(field.no_eval.empty() || name != fmt::format("parallel.{}", field.name),
                  "--set {}: trireme eval does not take {}: {}", text, name, field.no_eval);
  }
}

}  // namespace

JobConfig evaluation_config(const JobConfig& trained, std::span<const std::string> overrides) {
  for (const std::string& text : overrides) check_taken(text);
  JobConfig config = trained;
  config.parallel = {.layout = {.zero = trained.parallel.layout.zero},
                     .timeout_s = trained.parallel.timeout_s,
                     .device = trained.parallel.device,
                     .oversubscribe = trained.parallel.oversubscribe};
  config.precision = {.mode = trained.precision.mode, .ops = trained.precision.ops};
  config.checkpoint = {};
  if (!overrides.empty()) config = parse_config(to_toml(config), "the checkpoint's job", overrides);
  const bool has_maxima = trained.precision.mode == PrecisionMode::kFp8;
  TRIREME_CHECK(
      config.precision.mode != PrecisionMode::kFp8 || has_maxima,
      "precision.mode = \"fp8\" needs the maxima of a training in fp8, and the checkpoint has none");
  return config;
}

}  // namespace trireme

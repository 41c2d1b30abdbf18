#include "launcher/job/lora.h"

#include <algorithm>
#include <cmath>

#include "launcher/families/model_family.h"
#include "launcher/job/parameter_patterns.h"
#include "parallel/layout/parameter_rules.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kAllLinear = "all-linear";  // as in PEFT

struct LinearLayer {
  std::string name;  // "blocks.0.attention.qkv"
  Block* block = nullptr;
  ParamRef weight;  // of its first chunk
};

std::vector<LinearLayer> linear_layers(const BlockList& blocks) {
  std::vector<LinearLayer> layers;
  for (const auto& block : blocks) {
    for (int i = 0; i < static_cast<int>(block->parameters().size()); ++i) {
      const ParameterSpec& spec = block->parameters()[static_cast<std::size_t>(i)];
      if (!spec.allows_fp8 || spec.slice.chunk > 0) continue;
      layers.push_back({layer_of_weight(whole_name(spec.slice, block->full_name(spec))), block.get(), {i}});
    }
  }
  return layers;
}

// As in PEFT, a target may omit the beginning of a name.
bool names_layer(const std::string& target, const std::string& layer) {
  return target == kAllLinear || matches_pattern(target, layer) || matches_pattern("*." + target, layer);
}

void check_target(const std::string& target, const std::vector<LinearLayer>& layers,
                  const std::string& model) {
  TRIREME_CHECK(!layers.empty(), "train.lora: a {} has no inner linear layers to adapt", model);
  std::vector<std::string> names;
  for (const LinearLayer& layer : layers) {
    if (names_layer(target, layer.name)) return;
    names.push_back(layer.name);
  }
  throw Error(
      ErrorCode::kInvalidInput,
      "train.lora.targets: \"{}\" names none of the model's {} inner linear layers; the nearest is '{}' (`*` "
      "stands for any characters)",
      target, names.size(), nearest_parameter(target, names));
}

}  // namespace

double adapter_scale(const ModelSection& model) {
  const auto rank = static_cast<double>(model.lora_rank);
  return model.lora_alpha / (model.lora_rank_stabilized ? std::sqrt(rank) : rank);
}

void add_adapters(BlockList& blocks, const ModelSection& model) {
  const std::vector<LinearLayer> layers = linear_layers(blocks);
  for (const std::string& target : model.lora_targets) check_target(target, layers, model.name);
  const auto scale = static_cast<float>(adapter_scale(model));
  for (const LinearLayer& layer : layers) {
    const bool adapts = std::ranges::any_of(
        model.lora_targets, [&](const std::string& target) { return names_layer(target, layer.name); });
    if (!adapts) continue;
    const ParameterSpec& spec = layer.block->parameters()[static_cast<std::size_t>(layer.weight.index)];
    const Shape shape = whole_shape(spec.slice, spec.shape);
    const std::int64_t most = std::min(shape.dim(0), shape.dim(1));
    TRIREME_CHECK(
        model.lora_rank <= most,
        "train.lora.rank = {} is larger than the smaller dim of '{}', which is {}: take {} or less, or "
        "other train.lora.targets",
        model.lora_rank, layer.name, shape.to_string(), most);
    layer.block->add_adapter(layer.weight, model.lora_rank, scale);
  }
}

SavedAdapters saved_adapters(const ModelSection& model, const BlockList& blocks) {
  SavedAdapters saved{.rank = model.lora_rank,
                      .alpha = model.lora_alpha,
                      .rank_stabilized = model.lora_rank_stabilized,
                      .scale = adapter_scale(model),
                      .layers = {}};
  for (const LinearLayer& layer : linear_layers(blocks)) {
    const Adapter* adapter = layer.block->adapter(layer.weight);
    if (adapter == nullptr) continue;
    const auto name_of = [&](ParamRef ref) {
      const ParameterSpec& spec = layer.block->parameters()[static_cast<std::size_t>(ref.index)];
      return whole_name(spec.slice, layer.block->full_name(spec));
    };
    saved.layers.push_back({name_of(layer.weight), name_of(adapter->a), name_of(adapter->b)});
  }
  return saved;
}

std::vector<std::string> trained_with_adapters(const ModelSection& model) {
  if (!model.has_adapters()) return {};
  std::vector<std::string> patterns{fmt::format("*{}", kAdapterA), fmt::format("*{}", kAdapterB)};
  const bool tunes_head = model.task == ModelTask::kClassify || model.new_head;
  if (tunes_head) patterns.push_back(fmt::format("{}*", family_of(model).class_head));
  return patterns;
}

}  // namespace trireme
